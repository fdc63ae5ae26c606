# The adders of a storm: they add names in every way that there is, and put on record what was
# acknowledged.
package Adders;
use strict;
use warnings;
use utf8;
use Time::HiRes qw(sleep time);
use Storm;

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
			# Time for a rebuild to read its source without the name, while its old bits are there.
			sleep rand 2 if chance(0.25);
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

sub add_back { return add_alone(@_) }

sub add_alone
{
	my ($self, $filter, @names) = @_;
	add($self->{connection}, $filter, $_) for @names;
	return;
}

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

1;
