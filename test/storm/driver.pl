# Drives a storm: makes three servers and the filters, starts the clients and operators, and has the
# servers cancelled, killed, restarted and promoted at random until the time is up or a "no" was
# wrong. See test/storm.sh.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use DBD::Pg ();
use Time::HiRes qw(sleep time);
use Storm;
use Servers;
use Adders;
use Checkers;
use Faults;
use Report;

my ($work, $minutes, $seed, @without) = @ARGV;
my %without = map { $_ => 1 } @without;
($Servers::WORK, $Servers::LOGS, $Storm::DIR) = ($work, "$work/logs", "$work/record");
$ENV{PGHOST} = "$work/socket";
my ($ADDERS, $CHECKERS, $OPERATORS) = (5, 3, 2);
my ($primary, %role) = ('a', b => 'sync', c => 'async');
my $epoch = 1;
my %children;    # what runs beside this, by pid
my $began = time;
open my $told, '>>', '/dev/null';

sub say_line { print "@_\n"; return }
sub note { my ($what) = @_; say_line(sprintf '%7.1f s  %s', time - $began, $what); return }

sub announce
{
	my (%changes) = @_;
	publish(
		epoch => $epoch, primary => $Servers::PORTS{$primary}, settled => 0, stop => 0,
		standbys => [], %changes);
	return;
}

sub standby_ports { return [ map { $Servers::PORTS{$_} } sort keys %role ] }
sub admin { return connect_to($Servers::PORTS{$primary}, timeout => '60s') }

# A connection to the primary, which may be recovering from a crash. Recovery fails while its disk is
# full: then it is started again.
sub wait_for_primary
{
	my $end = time + 90;
	while (time < $end)
	{
		my $connection = admin();
		return $connection if $connection;
		my $postmaster = Servers::postmaster($primary);
		Servers::start($primary) if !$postmaster || Servers::zombie($postmaster);
		sleep 0.1;
	}
	die "server $primary does not come back";
}

# ---- Before and after

sub make_servers
{
	run_or_die('mkdir', '-p', $Storm::DIR, map { Servers::small($_) . '/space' } keys %Servers::PORTS);
	Servers::make_first($primary);
	my $connection = connect_to($Servers::PORTS{$primary}, database => 'postgres') or die 'no connection';
	$connection->do('set synchronous_commit = local');
	$connection->do('create database storm');
	$connection->do(sprintf q{create tablespace space location '%s'}, Servers::small($primary) . '/space');
	for my $name (sort keys %role)
	{
		Servers::follow($name, $primary, $role{$name}, 'copy') or die "server $name does not follow";
	}
	$connection = admin();
	$connection->do('create extension bloomfilter');
	for my $filter (sort keys %Storm::FILTERS)
	{
		my $of = $Storm::FILTERS{$filter};
		$connection->do("create table users_$filter (name text)");
		if ($of->{fixed}) { adopt($connection, $filter) }
		else
		{
			$connection->do('select bloom_create($1, $2::float8, 0.001, normalization => $3, ready => true)',
				undef, $filter, $of->{capacity}, $of->{normalization});
		}
		$connection->do('select bloom_resume($1::regclass, trust_failover => true)', undef, $filter) if $of->{trusting};
	}
	return;
}

# As in the article: a table made by hand, without room in its pages.
sub adopt
{
	my ($connection, $filter) = @_;
	my $of = $Storm::FILTERS{$filter};
	$of->{chunks} = 3000;
	$connection->do("create table $filter (chunk int primary key, bits bit(8192) not null)");
	$connection->do("insert into $filter select chunk, repeat('0', 8192)::bit(8192) from generate_series(0, $of->{chunks} - 1) chunk");
	$connection->do("select bloom_register('$filter', '$of->{normalization}', $of->{capacity})");
	return;
}

sub run_or_die { Servers::run(60, @_) or die "@_ failed"; return }

sub start_child
{
	my ($name, $number, $work) = @_;
	my $pid = fork // die "fork: $!";
	if ($pid) { $children{$pid} = "$name $number"; return }
	# a sequence of its own for each
	srand($seed * 1000 + 1 + keys %children);
	$SIG{$_} = 'DEFAULT' for qw(TERM INT HUP);
	open STDOUT, '>', "$Servers::LOGS/$name.$number.log" or die "log: $!";
	open STDERR, '>&', \*STDOUT or die "log: $!";
	Storm::set_parent();
	eval { $work->($number); 1 } or do { print STDERR $@; POSIX::_exit(3) };
	POSIX::_exit(0);
}

# Waits for the children, and ends those that do not end; the names of those that failed.
sub end_children
{
	my ($seconds) = @_;
	my ($end, @failed) = (time + $seconds);
	while (%children)
	{
		kill(time > $end + 5 ? 'KILL' : 'TERM', keys %children) if time > $end;
		for my $pid (keys %children)
		{
			next if waitpid($pid, POSIX::WNOHANG()) == 0;
			push @failed, $children{$pid} if $? && time <= $end;
			delete $children{$pid};
		}
		sleep 0.1;
	}
	return @failed;
}

# ---- What befalls the servers

sub backends
{
	my ($types) = @_;
	my $connection = admin() or die "skip\n";
	return $connection->selectcol_arrayref(qq{select pid from pg_stat_activity where backend_type in ($types)
		and pid <> pg_backend_pid() and coalesce(datname, 'storm') = 'storm' order by random()});
}

sub signal_backends
{
	my ($function, $types) = @_;
	my $connection = admin() or die "skip\n";
	my $pids = backends($types);
	my $rebuilding = $connection->selectcol_arrayref(q{select pid from pg_stat_activity where query ~ '^call bloom_' and state = 'active'});
	# Of what runs only shortly a random moment would meet little.
	my @chosen = (chance(0.5) && @$rebuilding ? $rebuilding->[0] : (), splice @$pids, 0, 1 + int rand 3);
	$connection->do("select $function($_)") for @chosen;
	return;
}

my %KINDS = (
	'cancel' => [ 20, sub { signal_backends('pg_cancel_backend', "'client backend'") } ],
	'terminate' => [ 16, sub { signal_backends('pg_terminate_backend', "'client backend', 'walsender'") } ],
	'kill -9 of a backend' => [ 6, \&kill_backend ],
	'kill -9 of the server' => [ 6, sub { Servers::kill_all($primary); restart() } ],
	'immediate restart' => [ 6, sub { Servers::stop($primary, 'immediate'); restart() } ],
	'kill -9 of a standby' => [ 3, \&kill_standby ],
	'promotion of the synchronous standby' => [ 4, sub { fail_over('sync') } ],
	'promotion of the asynchronous standby' => [ 3, sub { fail_over('async') } ]);

sub restart { Servers::start($primary) or die "server $primary does not start"; return }

sub kill_backend
{
	my $pids = backends("'client backend'");
	my @ours = Servers::children(Servers::postmaster($primary) or die "skip\n");
	my ($pid) = grep { my $pid = $_; grep { $_ == $pid } @ours } @$pids or die "skip\n";
	kill 9, $pid;
	sleep 0.5;
	wait_for_primary();
	return;
}

sub kill_standby
{
	my ($name) = pick(sort keys %role);
	Servers::kill_all($name);
	sleep rand;
	return;
}

# Has every standby stream again.
sub mend_standbys
{
	wait_for_primary();
	for my $name (sort { $role{$b} cmp $role{$a} } keys %role)
	{
		next if Servers::postmaster($name) && Servers::streams($primary, $role{$name}, 15);
		next if Servers::start($name) && Servers::streams($primary, $role{$name}, 15);
		note("server $name is copied anew");
		announce(standbys => [], settled => state()->{settled});
		Servers::follow($name, $primary, $role{$name}, 'copy') or die "server $name does not follow";
	}
	announce(standbys => standby_ports(), settled => 1);
	return;
}

# The primary dies, and a standby takes its place; then the other standby and the old primary follow
# it. Filters that do not trust a failover have to answer maybe until what may be missing is added
# again; so do all if the standby is the asynchronous one, by the hand of whoever promotes it.
sub fail_over
{
	my ($role) = @_;
	my ($next) = grep { $role{$_} eq $role } keys %role;
	my ($other) = grep { $role{$_} ne $role } keys %role;
	my $old = $primary;
	++$epoch;
	announce(primary => 0);
	chance(0.5) ? Servers::kill_all($old) : Servers::stop($old, 'immediate');
	Servers::promote($next) or die "server $next is not promoted";
	($primary, %role) = ($next, $other => 'sync', $old => 'async');
	my $connection = wait_for_primary();
	$connection->do('set synchronous_commit = local');
	for my $filter (sort keys %Storm::FILTERS)
	{
		$connection->do($_) for @{ Faults::leftovers($connection, $filter) };
	}
	if ($role eq 'async')
	{
		my $prepared = $connection->selectcol_arrayref('select gid from pg_prepared_xacts');
		$connection->do("rollback prepared '$_'") for @$prepared;
		for my $filter (grep { $Storm::FILTERS{$_}{trusting} } sort keys %Storm::FILTERS)
		{
			do_unreplicated($connection, "select bloom_suspend('$filter')");
		}
	}
	for my $filter (sort keys %Storm::FILTERS)
	{
		next if $Storm::FILTERS{$filter}{trusting};
		my @denied = Checkers::denied($connection, $filter, '{absent1,absent2,absent3}');
		wrong("filter $filter denies after a failover") if @denied;
	}
	announce();
	for my $name ($other, $old)
	{
		my $way = pick('rewind', 'copy');
		Servers::follow($name, $primary, $role{$name}, $way)
		  or Servers::follow($name, $primary, $role{$name}, 'copy')
		  or die "server $name does not follow";
		announce(standbys => [ map { $Servers::PORTS{$_} } $name eq $old ? ($other, $old) : $other ]);
		add_again($role) if $name eq $other;
	}
	return;
}

# Has a commit not wait for a standby that there is not yet, whatever the code says: it is cancelled
# while it waits.
sub do_unreplicated
{
	my ($connection, $statement) = @_;
	my $other = wait_for_primary();
	$connection->do($statement, { pg_async => DBD::Pg::PG_ASYNC() });
	until ($connection->pg_ready)
	{
		$other->do(q{select pg_cancel_backend(pid) from pg_stat_activity where pid = $1 and wait_event = 'SyncRep'},
			undef, $connection->{pg_pid});
		sleep 0.05;
	}
	$connection->pg_result;
	return;
}

# Adds every name on record that may be missing, to filters and to the tables that rebuilds read;
# then vouches for the filters.
sub add_again
{
	my ($role) = @_;
	my $record = Storm::Record->new(5000);
	my $end = time + 120;
	while (time < $end)
	{
		$record->poll;
		last if grep({ $_ >= $epoch } values %{ $record->{epoch} }) == $ADDERS;
		sleep 0.05;
	}
	die 'an adder does not see the new primary' if time >= $end;
	for my $filter (sort keys %Storm::FILTERS)
	{
		next if $role eq 'sync' && $Storm::FILTERS{$filter}{trusting};
		my $connection = wait_for_primary();
		$connection->do('create temporary table missing (name text)');
		for my $names ($record->literals($filter))
		{
			$connection->do('select bloom_add_many($1::regclass, $2::text[])', undef, $filter, $names);
			$connection->do('insert into missing select unnest($1::text[])', undef, $names);
		}
		$connection->do("insert into users_$filter select name from missing except select name from users_$filter");
		$connection->do('select bloom_resume($1::regclass)', undef, $filter);
		$connection->disconnect;
	}
	return;
}

# ---- The end

# Every name on record, on every server.
sub audit
{
	my ($counts) = @_;
	mend_standbys();
	my $record = Storm::Record->new(5000);
	$record->poll;
	my $owner = wait_for_primary();
	for my $filter (sort keys %Storm::FILTERS)
	{
		$owner->do($_) for @{ Faults::leftovers($owner, $filter) };
	}
	Servers::streams($primary, $_, 30) for values %role;
	for my $name ($primary, sort keys %role)
	{
		my $connection = connect_to($Servers::PORTS{$name}) or die "no server $name";
		wait_for_replay($connection) if $name ne $primary;
		for my $filter (sort keys %Storm::FILTERS)
		{
			for my $names ($record->literals($filter))
			{
				my @denied = Checkers::denied($connection, $filter, $names);
				$counts->{checks} += 1 + ($names =~ tr/,//);
				$counts->{wrong} += @denied;
				my @names = split /,/, substr $names, 1, -1;
				wrong("in the end, on server $name, filter $filter: " . join ' ', map { $names[ $_ - 1 ] } @denied) if @denied;
			}
		}
	}
	return $record->{names};
}

sub wait_for_replay
{
	my ($connection) = @_;
	my $lsn = wait_for_primary()->selectrow_array('select pg_current_wal_flush_lsn()');
	for (1 .. 300)
	{
		return if $connection->selectrow_array('select pg_last_wal_replay_lsn() >= $1::pg_lsn', undef, $lsn);
		sleep 0.1;
	}
	die 'a standby does not replay';
}

sub finish
{
	my ($broken) = @_;
	publish(%{ state() }, stop => 1) if -e "$Storm::DIR/state";
	my @failed = end_children(75);
	my $counts = Report::read_counts();
	my $names = eval { audit($counts) } // do { $broken ||= "the audit: $@"; 0 };
	my $all = Report::show($counts);
	$counts->{wrong} ||= 1 if -s "$Storm::DIR/wrong";
	my @crashes = Report::crashes();
	say_line("crash: $_") for @crashes;
	say_line("broke off: $_") for @failed, $broken || ();
	say_line(sprintf 'storm seed=%d seconds=%d names=%d checks=%d faults=%d wrong=%d broken=%d',
		$seed, time - $began, $names, $counts->{checks}, $all, $counts->{wrong}, @crashes + @failed + ($broken ? 1 : 0));
	return $counts->{wrong} || @crashes || @failed || $broken ? 1 : 0;
}

use POSIX ();
$| = 1;
# At once, also while the server is waited for; Perl's own handlers would wait too.
POSIX::sigaction($_, POSIX::SigAction->new(sub { kill 'KILL', keys %children; POSIX::_exit(143) }))
  for POSIX::SIGTERM(), POSIX::SIGINT(), POSIX::SIGHUP();
srand $seed;
make_servers();
open $told, '>>', "$Storm::DIR/faults.servers" or die "faults.servers: $!";
announce(standbys => standby_ports(), settled => 1);
start_child('adder', $_, \&Adders::run_adder) for 1 .. $ADDERS;
start_child('checker', $_, \&Checkers::run_checker) for 1 .. $CHECKERS;
start_child('operator', $_, sub { Faults::run_operator($_[0], %without) }) for 1 .. $OPERATORS;
note('three servers, filters and clients are there');
$began = time;
my @kinds = map { ($_) x $KINDS{$_}[0] } sort keys %KINDS;
my $weathered = eval {
	while (time < $began + 60 * $minutes && !-e "$Storm::DIR/wrong")
	{
		my $kind = pick(@kinds);
		sleep 0.3 + rand 2.5;
		mend_standbys();
		eval { $KINDS{$kind}[1]->(); 1 } or $@ =~ ($kind =~ /promotion/ ? qr/^skip/ : qr/^skip|^DBD/) or die "$kind: $@";
		append_line($told, "$kind|done") unless $@;
		note($kind) if $kind =~ /promotion|server/;
		for my $pid (keys %children)
		{
			next if waitpid($pid, POSIX::WNOHANG()) == 0;
			die delete($children{$pid}) . ' ended';
		}
	}
	mend_standbys();
	note('a "no" was wrong') if -e "$Storm::DIR/wrong";
	1;
};
exit finish($weathered ? '' : $@);
