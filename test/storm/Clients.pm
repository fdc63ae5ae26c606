# The clients of a storm: adders, which put on record what was acknowledged, and checkers, which ask
# for what was on record before they asked.
package Clients;
use strict;
use warnings;
use utf8;
use Time::HiRes qw(sleep time);
use Storm;

# ---- Adders

# Runs until the state says stop. Each name is first put into the table users_FILTER, from which
# rebuilds read, in a transaction of its own that is flushed and replicated: so a rebuild finds
# every name either there or in its journal, and what is tested is the filter.
sub run_adder
{
	my ($number) = @_;
	open my $record, '>>', "$Storm::DIR/adder.$number" or die "adder.$number: $!";
	my $self = { number => $number, record => $record, epoch => 0, sequence => 0, retry => [] };
	my %kinds = (
		alone => 6, savepoints => 3, serializable => 3, prepared => 2, many => 3, article => 3, merged => 1,
		back => 3);
	my @kinds = map { ($_) x $kinds{$_} } sort keys %kinds;
	until (parent_gone())
	{
		my $state = state();
		last if $state->{stop};
		# Before anything is sent to the new primary: whoever reads this knows that all that the old
		# one acknowledged is on record.
		if ($state->{epoch} != $self->{epoch})
		{
			delete $self->{connection};
			$self->{epoch} = $state->{epoch};
			append_line($record, "E $self->{epoch}");
		}
		if (!$state->{primary}) { sleep 0.05; next }
		if (!$self->{connection})
		{
			$self->{connection} = connect_to($state->{primary}) or do { sleep 0.1; next };
			$self->{mode} = '';
			eval { tidy_up($self); 1 } or do { delete $self->{connection}; next };
		}
		add_some($self, pick(@kinds));
		sleep rand 0.02;
	}
	return;
}

# Ends what an earlier connection has prepared; nobody was told whether it committed.
sub tidy_up
{
	my ($self) = @_;
	die 'no primary' if $self->{connection}->selectrow_array('select pg_is_in_recovery()');
	my $prepared = $self->{connection}->selectcol_arrayref(
		"select gid from pg_prepared_xacts where gid ~ '^storm$self->{number}-'");
	$self->{connection}->do(pick('commit', 'rollback') . " prepared '$_'") for @$prepared;
	return;
}

# One round of one kind. A commit whose wait for the standby was cut short counts as not
# acknowledged; so does every error. What was not acknowledged is often tried again, as a user would.
sub add_some
{
	my ($self, $kind) = @_;
	my @filters = grep { $Storm::FILTERS{$_}{fixed} || $kind ne 'article' } sort keys %Storm::FILTERS;
	my ($filter, @names) = @{ shift @{ $self->{retry} } // [ pick(@filters) ] };
	$kind = 'many' if @names > 5;
	$kind = 'alone' if @names && $kind eq 'back' || $kind eq 'article' && !$Storm::FILTERS{$filter}{fixed};
	@names = new_names($self, $kind) unless @names;
	my $acknowledged = 1;
	local $SIG{__WARN__} = sub {
		$acknowledged = 0 if $_[0] =~ /canceling (the )?wait for synchronous replication|terminat/;
	};
	my $done = eval {
		if ($kind eq 'back')
		{
			append_line($self->{record}, sprintf 'D %s %.3f %s', $filter, time, $names[0]);
			set_mode($self, 'on');
			$self->{connection}->do("delete from users_$filter where name = \$1", undef, $names[0]);
		}
		set_mode($self, 'on');
		$self->{connection}->do("insert into users_$filter select unnest(\$1::text[])", undef, literal(@names));
		set_mode($self, pick('on', 'on', 'remote_apply', 'local', 'off'));
		no strict 'refs';
		&{"add_$kind"}($self, $filter, @names);
		1;
	};
	if ($done && $acknowledged)
	{
		append_line($self->{record}, sprintf 'A %s %.3f %s', $filter, time, "@names");
		return;
	}
	push @{ $self->{retry} }, [ $filter, @names ] if $kind ne 'back' && chance(0.7);
	eval { $self->{connection}->rollback if !$self->{connection}{AutoCommit}; 1 };
	if (!$done && !eval { $self->{connection}->do('select 1') })
	{
		eval { $self->{connection}->disconnect };
		delete $self->{connection};
		sleep 0.1;
	}
	return;
}

sub literal { return '{' . join(',', @_) . '}' }

sub new_names
{
	my ($self, $kind) = @_;
	return 'back' . $self->{number} . '.' . int rand 50 if $kind eq 'back';
	my %count = (savepoints => 3, serializable => 2, prepared => 2, many => 20 + int rand 200, merged => 30);
	my $prefix = pick('u', 'User', 'näme', 'ÄÖ');
	return map { $prefix . $self->{number} . '.' . ++$self->{sequence} } 1 .. $count{$kind} // 1;
}

sub set_mode
{
	my ($self, $mode) = @_;
	return if $self->{mode} eq $mode;
	$self->{mode} = '';
	$self->{connection}->do("set synchronous_commit = $mode");
	$self->{mode} = $mode;
	return;
}

sub in_transaction
{
	my ($self, $isolation, $work) = @_;
	my $connection = $self->{connection};
	$connection->begin_work;
	$connection->do("set transaction isolation level $isolation");
	$work->($connection);
	return $connection;
}

sub add { return $_[0]->do('select bloom_add($1::regclass, $2)', undef, $_[1], $_[2]) }

sub add_alone
{
	my ($self, $filter, @names) = @_;
	add($self->{connection}, $filter, $_) for @names;
	return;
}
*add_back = \&add_alone;

sub add_savepoints
{
	my ($self, $filter, @names) = @_;
	in_transaction(
		$self, 'read committed',
		sub {
			my ($connection) = @_;
			for my $name (@names)
			{
				# The bits of what is rolled back may be another's next.
				$connection->do('savepoint gone');
				add($connection, $filter, $name);
				$connection->do('rollback to gone');
				$connection->do('savepoint kept');
				add($connection, $filter, $name);
				$connection->do('release kept');
			}
			sleep rand 0.2 if chance(0.1);
		})->commit;
	return;
}

sub add_serializable
{
	my ($self, $filter, @names) = @_;
	in_transaction(
		$self, 'serializable',
		sub {
			my ($connection) = @_;
			$connection->do('select count(*) from pg_class');
			sleep rand 0.2 if chance(0.1);
			add($connection, $filter, $_) for @names;
		})->commit;
	return;
}

sub add_prepared
{
	my ($self, $filter, @names) = @_;
	my $gid = "storm$self->{number}-" . ++$self->{sequence};
	my $connection = $self->{connection};
	# Not by the driver's transactions: it does not know that this one ends without a commit.
	$connection->do('begin');
	my $prepared = eval { add($connection, $filter, $_) for @names; $connection->do("prepare transaction '$gid'"); 1 };
	if (!$prepared) { $connection->do('rollback'); die 'not prepared' }
	sleep rand 0.3 if chance(0.3);
	return if eval { $connection->do("commit prepared '$gid'"); 1 };
	# It may have committed all the same; nobody was told.
	$connection->do("rollback prepared '$gid'");
	die 'not committed';
}

sub add_many
{
	my ($self, $filter, @names) = @_;
	$self->{connection}->do('select bloom_add_many($1::regclass, $2::text[])', undef, $filter, literal(@names));
	return;
}

# The update of the article, with the number of chunks that the filter was made with.
sub add_article
{
	my ($self, $filter, @names) = @_;
	for my $name (@names)
	{
		my $rows = $self->{connection}->do(
			"update $filter f set bits = bits | mask from username_bits(\$1, \$2) u where f.chunk = u.chunk",
			undef, $name, $Storm::FILTERS{$filter}{chunks});
		die 'no row' unless $rows == 1;
	}
	return;
}

sub add_merged
{
	my ($self, $filter, @names) = @_;
	$self->{connection}->do(
		q{select bloom_merge($1::regclass, (select bloom_agg_chunks(name, (select chunks from bloom_filters where filter = $1::regclass), $2)
			from unnest($3::text[]) name))}, undef, $filter, $Storm::FILTERS{$filter}{normalization}, literal(@names));
	return;
}

# ---- Checkers

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
	wrong($self, $where, $filter, $began, $changes, map { $names[ $_ - 1 ] } @denied) if @denied;
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
	wrong($self, $where, $filter, $began, $changes, $name) if !$maybe;
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

# A "no" that nothing excuses. A name that may leave, and was told to since, is excused.
sub wrong
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
	open my $file, '>>', "$Storm::DIR/wrong" or die "wrong: $!";
	my $shown = @names > 20 ? 20 : @names;
	append_line($file, sprintf 'at %.3f, checker %d, on %s, filter %s: %d names: %s', $began, $self->{number},
		$where, $filter, scalar @names, join ' ', @names[ 0 .. $shown - 1 ]);
	save_counts($self);
	return;
}

1;
