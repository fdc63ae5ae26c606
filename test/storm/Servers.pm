# The three servers of a storm, in folders of one name each: which of them is the primary, and how
# one dies, comes back, or follows another. Their standbys are called by what they are to the
# primary: "sync", for which its commits wait, and "async".
package Servers;
use strict;
use warnings;
use Time::HiRes qw(sleep time);
use Storm;

our %PORTS = (a => 5432, b => 5433, c => 5434);
our ($WORK, $LOGS);

sub data { return "$WORK/$_[0]" }

# Runs a program, for at most so many seconds; its output is in commands.log. Whether it succeeded.
sub run
{
	my ($seconds, @command) = @_;
	my $pid = fork // die "fork: $!";
	if (!$pid)
	{
		open STDOUT, '>>', "$LOGS/commands.log";
		open STDERR, '>&', \*STDOUT;
		open STDIN, '<', '/dev/null';
		print "@command\n";
		exec 'timeout', '-k', 5, $seconds, @command or exit 127;
	}
	waitpid $pid, 0;
	return $? == 0;
}

sub configure
{
	my ($name) = @_;
	open my $conf, '>>', data($name) . '/postgresql.conf' or die "postgresql.conf: $!";
	print $conf <<"CONF";
listen_addresses = ''
port = $PORTS{$name}
unix_socket_directories = '$ENV{PGHOST}'
fsync = off
wal_level = replica
wal_log_hints = on
wal_keep_size = 256MB
max_wal_size = 256MB
shared_buffers = 64MB
max_connections = 50
max_prepared_transactions = 30
synchronous_standby_names = 'sync'
hot_standby_feedback = on
max_standby_streaming_delay = 5s
wal_retrieve_retry_interval = 500ms
wal_receiver_timeout = 10s
wal_sender_timeout = 10s
autovacuum_naptime = 3s
maintenance_work_mem = 1MB
log_line_prefix = '%m [%p] %q%a '
CONF
	close $conf or die "postgresql.conf: $!";
	return;
}

sub start
{
	my ($name) = @_;
	for (1 .. 3)
	{
		return 1 if run(90, 'pg_ctl', '-s', '-w', '-t', 60, '-D', data($name), '-l', "$LOGS/$name.server.log", 'start');
		sleep 1;
	}
	return 0;
}

# Ends every process of the server at once, so that none can tidy up.
sub kill_all
{
	my ($name) = @_;
	my $postmaster = postmaster($name) or return;
	kill 'STOP', $postmaster;
	my @processes = ($postmaster, children($postmaster));
	kill 9, @processes;
	for (1 .. 1000)
	{
		if (!grep { -d "/proc/$_" && !zombie($_) } @processes)
		{
			# One that is dead, but that nobody has asked about yet, would pass for a running server.
			unlink data($name) . '/postmaster.pid';
			return;
		}
		sleep 0.01;
	}
	die "server $name does not die";
}

sub postmaster
{
	open my $file, '<', data($_[0]) . '/postmaster.pid' or return;
	my $pid = <$file> // return;
	return $pid + 0;
}

sub status_of
{
	open my $file, '<', "/proc/$_[0]/stat" or return;
	my $stat = <$file> // return;
	return $stat =~ /^\d+ \(.*\) (\S) (\d+)/s;
}

sub children
{
	my ($parent) = @_;
	return grep { ((status_of($_))[1] // 0) == $parent } map { m{(\d+)} } glob '/proc/[0-9]*';
}

sub zombie { return ((status_of($_[0]))[0] // 'Z') =~ /[ZX]/ }

sub stop
{
	my ($name, $mode) = @_;
	run(60, 'pg_ctl', '-s', '-w', '-t', 30, '-m', $mode, '-D', data($name), 'stop') or kill_all($name);
	return;
}

# Makes the first server, with a tablespace of its own.
sub make_first
{
	my ($name) = @_;
	run(60, 'initdb', '-D', data($name), '-U', 'postgres', '-A', 'trust', '-N', '-E', 'UTF8', '--locale=C.UTF-8')
	  or die "initdb failed";
	configure($name);
	start($name) or die "server $name does not start";
	return;
}

sub small { return "$WORK/small/$_[0]" }

# Has a server follow another, under a name that says what it is to it. By what it has, by
# pg_rewind or by a new copy; false where even that does not come up.
sub follow
{
	my ($name, $primary, $role, $way) = @_;
	stop($name, 'fast') if postmaster($name) && $way ne 'copy';
	if ($way eq 'rewind')
	{
		# It needs a server that was shut down, and recovers by itself one that was not.
		run(120, 'pg_rewind', '--no-sync', '-D', data($name), "--source-server=host=$ENV{PGHOST} port=$PORTS{$primary} user=postgres dbname=postgres")
		  or $way = 'copy';
	}
	if ($way eq 'copy')
	{
		kill_all($name) if postmaster($name);
		run(60, 'rm', '-rf', data($name)) or die 'rm failed';
		run(60, 'sh', '-c', 'rm -rf "$0"/*', small($name) . '/space') or die 'rm failed';
		run(180, 'pg_basebackup', '--no-sync', '-c', 'fast', '-h', $ENV{PGHOST}, '-p', $PORTS{$primary}, '-U', 'postgres',
			'-D', data($name), '-T', small($primary) . '/space=' . small($name) . '/space') or return 0;
	}
	open my $conf, '>>', data($name) . '/postgresql.conf' or die "postgresql.conf: $!";
	# what comes last counts: both ways bring the other's file
	print $conf "port = $PORTS{$name}\nprimary_conninfo = 'host=$ENV{PGHOST} port=$PORTS{$primary} user=postgres application_name=$role'\n";
	close $conf or die "postgresql.conf: $!";
	open my $signal, '>', data($name) . '/standby.signal' or die "standby.signal: $!";
	close $signal;
	return start($name) && streams($primary, $role, 30);
}

# Waits until that standby has, on disk, all that the primary had flushed when this was called: then
# it has all whose commit was ever acknowledged, if commits wait for it.
sub streams
{
	my ($primary, $role, $seconds) = @_;
	my $connection = connect_to($PORTS{$primary}, database => 'postgres') or return 0;
	my $end = time + $seconds;
	my $lsn;
	while (time < $end)
	{
		my $found = eval {
			$lsn //= $connection->selectrow_array(q{select pg_current_wal_flush_lsn() from pg_stat_replication
				where application_name = $1 and state = 'streaming'}, undef, $role);
			defined $lsn && $connection->selectrow_array(q{select count(*) from pg_stat_replication
				where application_name = $1 and state = 'streaming' and flush_lsn >= $2::pg_lsn
				and (sync_state = 'sync') = ($1 = 'sync')}, undef, $role, $lsn);
		};
		return 0 if $@;
		return 1 if $found;
		sleep 0.1;
	}
	return 0;
}

sub promote
{
	my ($name) = @_;
	return run(90, 'pg_ctl', '-s', '-w', '-t', 60, '-D', data($name), 'promote');
}

1;
