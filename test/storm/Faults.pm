# What befalls the filters of a storm: operators do to them what owners do, beside each other and
# beside what befalls the servers (see driver.pl).
package Faults;
use strict;
use warnings;
use Fcntl qw(:flock);
use Time::HiRes qw(sleep time);
use Storm;
use Servers;
use Checkers;

my %KINDS = (
	'rebuild' => [ 24, \&rebuild ], 'grow' => [ 5, \&grow ], 'failing source' => [ 7, \&failing_source ],
	'vacuum full' => [ 6, sub { sql($_[0], "vacuum full $_[1]") } ],
	'cluster' => [ 6, sub { sql($_[0], "cluster $_[1] using $_[1]_pkey") } ],
	'reindex' => [ 6, sub { sql($_[0], "reindex table $_[1]") } ],
	'reindex concurrently' => [ 6, sub { sql($_[0], "reindex table concurrently $_[1]") } ],
	'vacuum freeze' => [ 3, sub { sql($_[0], "vacuum freeze $_[1]") } ],
	'pg_repack' => [ 6, \&repack ], 'dump and restore' => [ 4, \&dump_and_restore ],
	'suspend and resume' => [ 7, \&suspend_and_resume ], 'set tablespace' => [ 6, \&set_tablespace ],
	'full disk' => [ 4, \&full_disk ]);

# Runs until the state says stop; leaves out what this machine has not got.
sub run_operator
{
	my ($number, %without) = @_;
	open my $told, '>>', "$Storm::DIR/faults.$number" or die "faults.$number: $!";
	my $self = { number => $number, record => Storm::Record->new(1000), suspended => {} };
	my @kinds = map { ($_) x $KINDS{$_}[0] } grep { !$without{$_} } sort keys %KINDS;
	until (parent_gone())
	{
		my $kind = pick(@kinds);
		my $filter = pick(sort keys %Storm::FILTERS);
		my $pause = rand 1.5;
		my $state = state();
		last if $state->{stop};
		# After a failover names may be missing: then nobody may vouch for a filter or its source.
		if (!$state->{settled}) { sleep 0.1; next }
		if (($self->{epoch} // 0) != $state->{epoch}) { delete $self->{connection}; $self->{suspended} = {} }
		$self->{epoch} = $state->{epoch};
		$self->{port} = $state->{primary};
		$self->{connection} //= connect_to($state->{primary}, timeout => '60s') or do { sleep 0.2; next };
		my $lock = shared_or_alone($kind, $filter) or next;
		my $done = eval { tidy_up($self, $filter); $KINDS{$kind}[1]->($self, $filter); 1 };
		my $error = $@;
		close $lock;
		if ($error !~ /^skip/)
		{
			append_line($told, "$kind|" . ($done ? 'done' : 'failed'));
			print STDERR "$kind $filter: $error" if !$done;
		}
		delete $self->{connection} unless eval { $self->{connection}->do('select 1') };
		sleep $pause;
	}
	return;
}

# What leaves something behind when it breaks off is not run beside what would take that away.
sub shared_or_alone
{
	my ($kind, $filter) = @_;
	open my $lock, '>>', "$Storm::DIR/lock.$filter" or die "lock.$filter: $!";
	flock $lock, ($kind =~ /concurrently|pg_repack/ ? LOCK_EX : LOCK_SH) | LOCK_NB or return;
	return $lock;
}

sub sql
{
	my ($self, $statement, @values) = @_;
	$self->{connection}->do($statement, undef, @values);
	return;
}

# Resumes what an earlier suspension left so, and removes what a broken reindex or pg_repack left,
# as its owner has to.
sub tidy_up
{
	my ($self, $filter) = @_;
	for my $suspended (keys %{ $self->{suspended} })
	{
		sql($self, 'select bloom_resume($1::regclass)', $suspended);
		delete $self->{suspended}{$suspended};
	}
	return if busy($self) || !@{ leftovers($self->{connection}, $filter) };
	# The lock that this process holds is shared; what was begun meanwhile has another name.
	open my $alone, '>>', "$Storm::DIR/lock.$filter.tidy" or die "lock.$filter.tidy: $!";
	return unless flock $alone, LOCK_EX | LOCK_NB;
	sql($self, $_) for @{ leftovers($self->{connection}, $filter) };
	return;
}

# The statements that remove what a reindex or a pg_repack that broke off has left of a filter.
sub leftovers
{
	my ($connection, $filter) = @_;
	return $connection->selectcol_arrayref(q{
		select format('drop index if exists %s', indexrelid::regclass) from pg_index
		where indrelid = $1::regclass and not indisprimary union all
		select 'drop extension if exists pg_repack cascade'
		where exists (select from pg_trigger where tgrelid = $1::regclass and tgname = 'repack_trigger')
			or exists (select from pg_class where relname = format('table_%s', $1::regclass::oid)
				and relnamespace = to_regnamespace('repack'))}, undef, $filter);
}

# Whether one of those runs now.
sub busy
{
	my ($self) = @_;
	return $self->{connection}->selectrow_array(
		q{select count(*) from pg_stat_activity where pid <> pg_backend_pid()
		and (application_name = 'pg_repack' or query ~* 'reindex table concurrently' and state = 'active')});
}

# For as many as it holds, and some; of a filter with a fixed size for as many as it was made for.
sub size
{
	my ($self, $filter) = @_;
	return '' if $Storm::FILTERS{$filter}{fixed};
	my $names = $self->{connection}->selectrow_array("select count(*) from users_$filter");
	return sprintf ', capacity => %d', ($names + 10_000) * (1 + rand 3);
}

sub rebuild
{
	my ($self, $filter) = @_;
	my $slow = chance(0.5) ? sprintf ', (select pg_sleep(%.1f)) slow', rand 1.5 : '';
	sql($self, 'set maintenance_work_mem = ' . pick("'1MB'", "'64MB'"));
	sql($self, sprintf q{call bloom_rebuild('%s', 'select name from users_%s%s', grace => '%.1f s', min_share => 0.5%s)},
		$filter, $filter, $slow, rand 0.5, size($self, $filter));
	return;
}

sub grow
{
	my ($self, $filter) = @_;
	my $chunks = $self->{connection}->selectrow_array('select chunks from bloom_filters where filter = $1::regclass', undef, $filter);
	die "skip\n" if $Storm::FILTERS{$filter}{fixed} || $chunks > 4000;
	sql($self, "call bloom_grow('$filter')");
	return;
}

# None of these may change the filter: an error in the midst of the source, one that yields too
# little, one that is no query.
sub failing_source
{
	my ($self, $filter) = @_;
	my $source = pick(
		"select name || case when row_number() over () > 500 then (1 / (random() * 0)::int)::text else '''' end from users_$filter",
		"select name from users_$filter limit 100", "select name from users_$filter where false",
		"select name from users_$filter, pg_terminate_backend(pg_backend_pid())", 'select name from nobody');
	die "the source did not fail\n"
	  if eval { sql($self, "call bloom_rebuild('$filter', '$source', grace => '0')"); 1 };
	return;
}

sub repack
{
	my ($self, $filter) = @_;
	sql($self, 'create extension if not exists pg_repack');
	Servers::run(40, 'pg_repack', '-h', $ENV{PGHOST}, '-p', $self->{port}, '-U', 'postgres',
		'-d', 'storm', '-t', $filter, '-T', 5, '--no-kill-backend') or die "pg_repack failed\n";
	return;
}

sub server_at { my ($port) = @_; return (grep { $Servers::PORTS{$_} == $port } keys %Servers::PORTS)[0] }

# The copy answers maybe until it is resumed, and then has all that was on record before the dump.
sub dump_and_restore
{
	my ($self, $filter) = @_;
	my $file = "$Servers::WORK/dump.$self->{number}";
	my $database = "copy$self->{number}";
	my @server = ('-h', $ENV{PGHOST}, '-p', $self->{port}, '-U', 'postgres');
	$self->{record}->poll;
	my @blocks = @{ $self->{record}{filters}{$filter}{blocks} };
	Servers::run(60, 'pg_dump', '-Fc', '-Z1', @server, '-f', $file, '-t', $filter, 'storm') or die "pg_dump failed\n";
	sql($self, "drop database if exists $database with (force)");
	sql($self, "create database $database template template0");
	my $copy = connect_to($self->{port}, database => $database) or die "no copy\n";
	$copy->do('create extension bloomfilter');
	Servers::run(60, 'pg_restore', @server, '-d', $database, $file) or die "pg_restore failed\n";
	my ($maybe, $status) = $copy->selectrow_array(
		q{select bloom_might_contain($1::regclass, 'absent'), status from bloom_filters}, undef, $filter);
	wrong("a restored filter answers while it is $status") if !$maybe;
	$copy->do('select bloom_resume($1::regclass)', undef, $filter);
	for my $block (@blocks)
	{
		my @denied = Checkers::denied($copy, $filter, $block);
		wrong("a restored filter denies " . @denied . " of $block") if @denied;
	}
	$copy->disconnect;
	sql($self, "drop database $database with (force)");
	return;
}

sub suspend_and_resume
{
	my ($self, $filter) = @_;
	$self->{suspended}{$filter} = 1;
	sql($self, 'select bloom_suspend($1::regclass)', $filter);
	sleep rand 1.5;
	sql($self, 'select bloom_resume($1::regclass)', $filter);
	delete $self->{suspended}{$filter};
	return;
}

sub set_tablespace
{
	my ($self, $filter) = @_;
	my $to = pick('space', 'pg_default');
	sql($self, "alter table $filter set tablespace $to");
	sql($self, "alter index ${filter}_pkey set tablespace $to");
	return;
}

# The filter's file system has hardly any room for a while: adds and rebuilds fail, checks go on.
sub full_disk
{
	my ($self, $filter) = @_;
	my $filler = Servers::small(server_at($self->{port})) . '/filler';
	sql($self, "alter table $filter set tablespace space");
	eval { fill($filler); sleep 0.5; eval { rebuild($self, $filter) }; sleep rand 2 };
	my $error = $@;
	unlink $filler;
	die $error if $error;
	sql($self, "alter table $filter set tablespace pg_default") if chance(0.7);
	return;
}

sub fill
{
	my ($path) = @_;
	open my $file, '>', $path or die "$path: $!\n";
	1 while syswrite $file, "\0" x 65536;
	close $file;
	return;
}

1;
