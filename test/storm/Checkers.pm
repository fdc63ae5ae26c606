# The checkers of a storm: they ask for what was on record before they asked, and write down every
# "no".
package Checkers;
use strict;
use warnings;
use utf8;
use Time::HiRes qw(sleep time);
use Storm;

# Runs until the state says stop; writes its counts every second.
sub run_checker
{
	my ($number) = @_;
	my $self = {
		number => $number, record => Storm::Record->new(1000), connections => {}, saved => 0,
		counts => { checks => 0, wrong => 0, standby => 0, old => 0, absent => 0, absent_denied => 0 } };
	until (parent_gone())
	{
		my $state = state();
		last if $state->{stop};
		save_counts($self) if time > $self->{saved} + 1;
		if (!$state->{primary}) { sleep 0.05; next }
		my $how = chance(0.25) ? \&on_standby : chance(0.1) ? \&under_old_snapshot : \&on_primary;
		eval { $how->($self, $state); 1 } or refused($self, $@);
		sleep 0.01;
	}
	save_counts($self);
	return;
}

sub save_counts
{
	my ($self) = @_;
	my $path = "$Storm::DIR/checker.$self->{number}";
	$self->{counts}{names} = $self->{record}{names};
	open my $file, '>', "$path.new" or die "$path: $!";
	print $file map { "$_ $self->{counts}{$_}\n" } sort keys %{ $self->{counts} };
	close $file or die "$path: $!";
	rename "$path.new", $path or die "$path: $!";
	$self->{saved} = time;
	return;
}

# An error is no answer. Which errors there were is told at the end.
sub refused
{
	my ($self, $error) = @_;
	die $error if $error !~ /^DBD|^not now/;
	my $state = $DBI::state || '';
	++$self->{counts}{"error:$state"} if $error =~ /^DBD/ && $state;
	for my $port (keys %{ $self->{connections} })
	{
		my $connection = $self->{connections}{$port};
		next if eval { $connection->rollback if !$connection->{AutoCommit}; $connection->do('select 1'); 1 };
		delete $self->{connections}{$port};
	}
	sleep 0.05;
	return;
}

# A connection to a server that is what the state says it is, as of now: a server is never made a
# standby without being stopped.
sub server
{
	my ($self, $port, $in_recovery) = @_;
	my $connection = $self->{connections}{$port} //= connect_to($port) or die "not now\n";
	die "not now\n" if $connection->selectrow_array('select pg_is_in_recovery()') != $in_recovery;
	return $connection;
}

sub require_same_epoch
{
	my ($state) = @_;
	die "not now\n" if state()->{epoch} != $state->{epoch};
	return;
}

sub on_primary
{
	my ($self, $state) = @_;
	my $connection = server($self, $state->{primary}, 0);
	require_same_epoch($state);
	ask_round($self, $connection, 'primary');
	return;
}

# Members are asked for within a transaction whose snapshot is older than they are.
sub under_old_snapshot
{
	my ($self, $state) = @_;
	my $connection = server($self, $state->{primary}, 0);
	require_same_epoch($state);
	$connection->begin_work;
	$connection->do('set transaction isolation level repeatable read');
	$connection->do('select count(*) from pg_class');
	my $end = time + rand 2;
	while (time < $end)
	{
		ask_round($self, $connection, 'old');
		sleep 0.1;
	}
	$connection->commit;
	return;
}

# What was on record is asked for once the standby has replayed all that the primary had flushed by
# then. That it follows this primary, and not an earlier one, the state says: before and after.
sub on_standby
{
	my ($self, $state) = @_;
	my $port = pick(@{ $state->{standbys} }) or return;
	my $standby = server($self, $port, 1);
	my $primary = server($self, $state->{primary}, 0);
	$self->{record}->poll;
	my $lsn = $primary->selectrow_array('select pg_current_wal_flush_lsn()');
	for (1 .. 50)
	{
		last if $standby->selectrow_array('select pg_last_wal_replay_lsn() >= $1::pg_lsn', undef, $lsn);
		die "not now\n" if $_ == 50;
		sleep 0.1;
	}
	my $now = state();
	die "not now\n" unless $now->{epoch} == $state->{epoch} && grep { $_ == $port } @{ $now->{standbys} };
	ask_round($self, $standby, 'standby');
	return;
}

# Asks for names that have just been added, one by one and many, and for any others. Takes no new
# names on record on a standby, which may not have them.
sub ask_round
{
	my ($self, $connection, $where) = @_;
	$self->{record}->poll unless $where eq 'standby';
	for my $filter (sort keys %Storm::FILTERS)
	{
		my $of = $self->{record}{filters}{$filter};
		my @fresh = splice @{ $of->{fresh} };
		ask_one($self, $connection, $where, $filter, $_) for splice @fresh, 0, 10;
		while (my @some = splice @fresh, 0, 5000) { ask($self, $connection, $where, $filter, literal(@some)) }
		my @back = grep { $of->{back}{$_}{there} } keys %{ $of->{back} };
		ask($self, $connection, $where, $filter, literal(@back)) if @back;
		my @blocks = @{ $of->{blocks} };
		ask($self, $connection, $where, $filter, pick(@blocks)) for 1 .. (@blocks ? 12 : 0);
		ask_absent($self, $connection, $filter);
	}
	return;
}

# The elements of a literal that are denied.
sub denied
{
	my ($connection, $filter, $literal) = @_;
	my $places = $connection->selectrow_array(
		q{select array_to_string(array_positions(bloom_might_contain_many($1::regclass, $2::text[]), false), ',')},
		undef, $filter, $literal);
	return split /,/, $places // '';
}

sub ask
{
	my ($self, $connection, $where, $filter, $literal) = @_;
	my $asked = in_other_case($filter, $literal);
	my $changes = changes_of_back($self, $filter);
	my @names = split /,/, substr $literal, 1, -1;
	my $began = time;
	my @denied = denied($connection, $filter, $asked);
	$self->{counts}{checks} += @names;
	$self->{counts}{$where} += @names if $where ne 'primary';
	report_wrong($self, $where, $filter, $began, $changes, map { $names[ $_ - 1 ] } @denied) if @denied;
	return;
}

sub ask_one
{
	my ($self, $connection, $where, $filter, $name) = @_;
	my $changes = changes_of_back($self, $filter);
	my $began = time;
	my $maybe = $connection->selectrow_array('select bloom_might_contain($1::regclass, $2)', undef,
		$filter, in_other_case($filter, $name));
	++$self->{counts}{checks};
	report_wrong($self, $where, $filter, $began, $changes, $name) if !$maybe;
	return;
}

sub in_other_case
{
	my ($filter, $text) = @_;
	return $text if $Storm::FILTERS{$filter}{normalization} ne 'lower' || chance(0.5);
	return uc $text;
}

# That names were never added is denied shows that the filter answers at all.
sub ask_absent
{
	my ($self, $connection, $filter) = @_;
	my @names = map { 'absent' . rand } 1 .. 20;
	$self->{counts}{absent} += @names;
	$self->{counts}{absent_denied} += denied($connection, $filter, literal(@names));
	return;
}

sub changes_of_back
{
	my ($self, $filter) = @_;
	my $back = $self->{record}{filters}{$filter}{back};
	return { map { $_ => $back->{$_}{changes} } keys %$back };
}

# Writes down a "no", unless it is of a name that was told since that it may leave.
sub report_wrong
{
	my ($self, $where, $filter, $began, $changes, @names) = @_;
	my $back = $self->{record}{filters}{$filter}{back};
	if (grep { /^back/ } @names)
	{
		$self->{record}->poll;
		@names = grep { !/^back/ || $back->{$_}{changes} == $changes->{$_} } @names;
	}
	return unless @names;
	$self->{counts}{wrong} += @names;
	my $shown = @names > 20 ? 20 : @names;
	wrong(sprintf 'checker %d, asked at %.3f on %s, filter %s: %d names: %s', $self->{number}, $began, $where,
		$filter, scalar @names, join ' ', @names[ 0 .. $shown - 1 ]);
	save_counts($self);
	return;
}

1;
