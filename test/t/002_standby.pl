# Checks on a hot standby: they see what has been replayed, in sessions and transactions that began
# before it; what would write is refused; what is missing is an error there too.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1, extra => [ '--encoding=UTF8', '--locale=C' ]);
$primary->start;
$primary->safe_psql('postgres', q{
create extension bloomfilter;
select bloom_create('f', 10000, ready => true);
select bloom_add('f', 'ada');
});
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
# a session below stays in a transaction while rows are pruned on the primary
$standby->append_conf('postgresql.conf', q{
max_standby_streaming_delay = -1
hot_standby_feedback = on
});
$standby->start;

sub catch_up
{
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));
	return;
}

# Has the primary run it, and the standby replay it.
sub on_primary
{
	my ($sql) = @_;
	my $result = $primary->safe_psql('postgres', $sql);
	catch_up();
	return $result;
}

# The error of a statement on the standby, with its SQLSTATE.
sub error_of
{
	my ($sql) = @_;
	my ($status, $output, $error) =
	  $standby->psql('postgres', $sql, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	isnt($status, 0, "no answer: $sql");
	return $error;
}

# An open session's answer; what it was told besides goes to $told.
my $told;
sub answer
{
	my ($session, $sql) = @_;
	my $result = $session->query($sql);
	$told = $session->{stderr};
	$session->{stderr} = '';
	return $result;
}

my $session = $standby->background_psql('postgres', on_error_stop => 0);
my $old = $standby->background_psql('postgres', on_error_stop => 0);
my $check = q{select bloom_might_contain('f', 'ada'), bloom_might_contain('f', 'liv')};
$old->query_safe('begin isolation level repeatable read');
is(answer($session, $check), 't|f', 'what was added before the backup is there');
is(answer($old, $check), 't|f', 'and in a transaction');

on_primary(q{select bloom_add('f', 'liv')});
is(answer($session, $check), 't|t', 'an add is seen once it is replayed');
is(answer($old, $check), 't|t', 'and by a transaction whose snapshot is older');

# Enough adds that some rows move to other pages.
on_primary(q{select bloom_add('f', 'n' || i) from generate_series(1, 3000) i});
on_primary(q{vacuum f});
on_primary(q{select bloom_add_many('f', array(select 'm' || i from generate_series(1, 3000) i))});
my $denied = q{
select count(*) from generate_series(1, 3000) i, unnest(array['n', 'm']) prefix
where not bloom_might_contain('f', prefix || i)};
is(answer($session, $denied), '0', 'none of many is denied');
is(answer($old, $denied), '0', 'nor in a transaction whose snapshot is older');

is($standby->safe_psql('postgres', q{select split_part(status, ':', 1), chunks, chunks_read from bloom_info('f')}),
	'ready|128|128', 'bloom_info');
is($standby->safe_psql('postgres', q{select filter, split_part(status, ':', 1), chunks from bloom_filters}),
	'f|ready|128', 'bloom_filters');

for my $call (
	q{bloom_add('f', 'ken')}, q{bloom_add('f', 'ada')},
	q{bloom_add_many('f', '{ken}')}, q{bloom_suspend('f')},
	q{bloom_resume('f')}, q{bloom_register('f', 'lower')},
	q{bloom_create('g', 1000)})
{
	my ($function) = $call =~ /^(\w+)/;
	like(error_of("select $call"),
		qr/ERROR:  25006: cannot execute $function\(\) in a read-only transaction/,
		"$call is refused");
}

# Settings reach sessions of the standby.
on_primary(q{select bloom_suspend('f')});
is(answer($session, q{select bloom_might_contain('f', 'ken')}), 't', 'suspended');
like($told, qr/NOTICE:  checks of Bloom filter "f" answer maybe\nDETAIL:  Its status is "suspended"/,
	'with a notice');
is(answer($old, q{select bloom_might_contain('f', 'ken')}), 't', 'in a transaction too');
on_primary(q{select bloom_resume('f')});
is(answer($session, q{select bloom_might_contain('f', 'ken')}), 'f', 'resumed');
is(answer($old, q{select bloom_might_contain('f', 'ken')}), 'f', 'in a transaction too');

# What is missing. AccessExclusive locks are replayed: the transaction has to end first.
$old->quit;
on_primary(q{
alter table f disable trigger bloom_filter;
delete from f where chunk = bloom_chunk('ken', 128);
alter table f enable always trigger bloom_filter;
});
answer($session, q{select bloom_might_contain('f', 'ken')});
like($told, qr/ERROR:  chunk \d+ of Bloom filter "f" is missing/, 'a lost chunk is an error');
like(error_of(q{select bloom_might_contain('f', 'ken')}), qr/ERROR:  XX001/, 'of damaged data');
is(answer($session, q{select bloom_might_contain('f', 'ada')}), 't', 'other chunks answer');
on_primary(q{alter table f disable trigger bloom_filter_truncate; truncate f;
alter table f enable always trigger bloom_filter_truncate});
answer($session, q{select bloom_might_contain('f', 'ada')});
like($told, qr/ERROR:  Bloom filter "f" is damaged/, 'an empty table is an error');
like(error_of(q{select bloom_might_contain('f', 'ada')}), qr/ERROR:  XX001/, 'of damaged data');
is($standby->safe_psql('postgres', q{select status from bloom_filters}),
	'unusable: Its settings say 128 chunks, but its last chunk is -1.', 'which bloom_filters shows');
my $oid = $primary->safe_psql('postgres', q{select 'f'::regclass::oid});
on_primary(q{drop table f});
answer($session, q{select bloom_might_contain('f', 'ada')});
like($told, qr/ERROR:  relation "f" does not exist/, 'so is a dropped filter');
like(error_of("select bloom_might_contain($oid, 'ada')"),
	qr/ERROR:  42P01: Bloom filter with OID $oid does not exist/, 'by its OID too');

$session->quit;
$standby->stop;
$primary->stop;
done_testing();
