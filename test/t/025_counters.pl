# The counters of filters are exact: under sixteen clients, in workers, after errors and rollbacks.
# They begin anew after a reset, a crash, and with another filter.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/..";
use Crash;

# A node that counts: from PostgreSQL 17 on without preloading. Before that it must be preloaded.
sub make_node
{
	my ($name, $preload) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(allows_streaming => 1, extra => [ '--encoding=UTF8', '--locale=C' ]);
	$node->append_conf('postgresql.conf', "max_prepared_transactions = 5\nmax_worker_processes = 16\nmax_connections = 40\n"
		. ($preload ? "shared_preload_libraries = 'bloomfilter'\n" : ''));
	$node->start;
	$node->safe_psql('postgres', q{
create extension bloomfilter;
set client_min_messages = warning;
select bloom_create('username_filter', 100000, ready => true);
select bloom_add_many('username_filter', array_agg('user' || i)) from generate_series(1, 1000) i;
select bloom_stat_reset();
});
	return $node;
}

# All counters of a filter in one line.
sub counters
{
	my ($node, $filter) = @_;
	$filter //= 'username_filter';
	return $node->safe_psql('postgres', qq{
select format('lookups %s maybes %s adds %s new %s bulk %s errors %s false %s', lookups, maybes, adds, new_items,
              bulk_calls, errors, false_positives) from bloom_stats('$filter')});
}

# Sets the counters to zero, runs the SQL, which may fail, and returns them.
sub counted
{
	my ($node, $sql) = @_;
	$node->safe_psql('postgres', q{select bloom_stat_reset('username_filter')});
	$node->psql('postgres', $sql, on_error_stop => 0);
	return counters($node);
}

my $zero = 'lookups 0 maybes 0 adds 0 new 0 bulk 0 errors 0 false 0';

# Everything that holds whether the library was preloaded or not.
sub check_node
{
	my ($node, $how) = @_;
	is(counters($node), $zero, "$how: all begin at zero");

	# ---- Sixteen clients, each with transactions of one, of many, and of some that roll back
	$node->pgbench('--no-vacuum --client=16 --jobs=2 --transactions=200 --define=client=0', 0,
		[qr{3200/3200}], [qr{^$}], "$how: sixteen clients", {
			"025_counters_$how" => q{
\set n random(1, 1000000000)
select bloom_might_contain('username_filter', 'user7');
select bloom_might_contain_many('username_filter', '{user1,user2,null,user3}');
begin;
select bloom_add('username_filter', 'user8');
select bloom_might_contain_any('{username_filter}', 'user9');
rollback;
select bloom_report_false_positive('username_filter', 2);
} });
	# 3,200 transactions: lookups 1 + 3 + 1, all maybe.
	is(counters($node), 'lookups 16000 maybes 16000 adds 3200 new 0 bulk 3200 errors 0 false 6400',
		"$how: no call of sixteen clients is lost or counted twice");

	# ---- One call each
	is(counted($node, q{select bloom_might_contain('username_filter', n) from unnest('{user1,nobody,null}'::text[]) n}),
		'lookups 2 maybes 1 adds 0 new 0 bulk 0 errors 0 false 0', "$how: checks");
	is(counted($node, q{select bloom_add_many('username_filter', '{ada,user1,null,bob}')}),
		'lookups 0 maybes 0 adds 3 new 2 bulk 1 errors 0 false 0', "$how: adds");
	is(counted($node, q{begin; select bloom_add('username_filter', 'eve'); rollback}),
		'lookups 0 maybes 0 adds 1 new 1 bulk 0 errors 0 false 0', "$how: calls count, also those rolled back");
	is(counted($node, q{begin; savepoint a; select bloom_might_contain('username_filter', 'user1'); rollback to a; commit}),
		'lookups 1 maybes 1 adds 0 new 0 bulk 0 errors 0 false 0', "$how: a savepoint");
	is(counted($node, q{begin; select bloom_add('username_filter', 'user1'); prepare transaction 'p'}),
		'lookups 0 maybes 0 adds 1 new 0 bulk 0 errors 0 false 0', "$how: a prepared transaction");
	$node->safe_psql('postgres', q{rollback prepared 'p'});
	is(counted($node, q{set track_counts = off; select bloom_might_contain('username_filter', 'user1')}),
		$zero, "$how: nothing with track_counts off");
	is(counted($node, q{
create table users (username text);
create trigger add_names after insert on users referencing new table as added for each statement
    execute function bloom_add_trigger('public.username_filter', 'username');
insert into users values ('user1'), ('user2'), ('zoe');
drop table users}),
		'lookups 0 maybes 0 adds 3 new 1 bulk 1 errors 0 false 0', "$how: a trigger");

	# ---- Errors of calls that had opened the filter
	is(counted($node, q{
set session_replication_role = replica; alter table username_filter disable trigger all;
create table kept as select * from username_filter where chunk = 5;
delete from username_filter where chunk = 5;
alter table username_filter enable always trigger bloom_filter, enable always trigger bloom_filter_truncate;}),
		$zero, "$how: a chunk is deleted");
	my $in_chunk = $node->safe_psql('postgres', q{
select 'n' || i from generate_series(1, 100000) i, (select count(*)::int + 1 as chunks from username_filter) n
where bloom_chunk('n' || i, chunks) = 5 limit 1});
	is(counted($node, qq{
select bloom_might_contain('username_filter', '$in_chunk');
do \$\$ begin perform bloom_add('username_filter', '$in_chunk'); exception when data_corrupted then end \$\$;
select bloom_might_contain('username_filter', 'user1')}),
		'lookups 1 maybes 1 adds 0 new 0 bulk 0 errors 2 false 0', "$how: errors, also those that are caught");
	$node->safe_psql('postgres', q{
set session_replication_role = replica; insert into username_filter select * from kept; drop table kept});

	# ---- Workers
	$node->safe_psql('postgres', q{create table many as select 'user' || i as name from generate_series(1, 20000) i});
	is(counted($node, q{
set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0;
select count(*) from many where bloom_might_contain('username_filter', name)}) =~ s/maybes \d+/maybes M/r,
		'lookups 20000 maybes M adds 0 new 0 bulk 0 errors 0 false 0', "$how: parallel workers count");

	# ---- Another filter of the same name
	$node->safe_psql('postgres', q{
set client_min_messages = warning;
select bloom_create('other', 1000, ready => true);
select bloom_add('other', 'ada');
drop table other;
select bloom_create('other', 1000, ready => true);
});
	is(counters($node, 'other'), $zero, "$how: a filter that is made anew begins at zero");
	$node->safe_psql('postgres', q{drop table other});

	# ---- A crash
	isnt(counters($node), $zero, "$how: something is counted before a crash");
	kill_server($node);
	$node->start;
	is(counters($node), $zero, "$how: a crash sets all to zero");
	is(counted($node, q{select bloom_might_contain('username_filter', 'user1')}),
		'lookups 1 maybes 1 adds 0 new 0 bulk 0 errors 0 false 0', "$how: and counting goes on");
	return;
}

my $preloaded = make_node('preloaded', 1);
check_node($preloaded, 'preloaded');

# ---- A standby counts its own

$preloaded->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($preloaded, 'base', has_streaming => 1);
$standby->start;
$preloaded->wait_for_catchup($standby, 'replay', $preloaded->lsn('flush'));
is(counters($standby), $zero, 'a standby begins at zero');
$standby->safe_psql('postgres', q{
select bloom_might_contain('username_filter', 'user1'), bloom_report_false_positive('username_filter')});
is(counters($standby), 'lookups 1 maybes 1 adds 0 new 0 bulk 0 errors 0 false 1', 'and counts what it does itself');
is(counters($preloaded), 'lookups 1 maybes 1 adds 0 new 0 bulk 0 errors 0 false 0', 'which the primary does not');
is($standby->safe_psql('postgres', q{select bloom_stat_reset(); select lookups from bloom_filters}), "\n0",
	'it is reset by itself');
$standby->stop;

# ---- More filters than there are slots

# 1,100 filters, each dropped before the next is made, fill the 1,024 slots. Then slots are freed; the
# next 1,100 fill them again, but one session frees them only once a minute.
is($preloaded->safe_psql('postgres', q{
set client_min_messages = warning;
create procedure make_and_drop(many int) language plpgsql as $$ begin
    for i in 1..many loop
        perform bloom_create('f', 1, ready => true);
        perform bloom_might_contain('f', 'ada');
        drop table f;
        commit;
    end loop;
end $$;
create procedure make_last() language plpgsql as $$ begin
    perform bloom_create('f', 1, ready => true);
    perform bloom_might_contain('f', 'ada');
    commit;
end $$;
call make_and_drop(1100);
call make_last(); select lookups from bloom_stats('f');
drop table f;
call make_and_drop(1100);
call make_last(); select lookups is null from bloom_stats('f');
}), "1\nt", 'slots of dropped filters are freed; a filter without a slot has no counters, and no error');
is($preloaded->safe_psql('postgres', q{select bloom_might_contain('f', 'ada'); select lookups from bloom_stats('f')}), "f\n1",
	'until another call finds one for it');
$preloaded->stop;

# ---- Without preloading

my $version = substr(`pg_config --version`, 11) + 0;
my $plain = make_node('plain', 0);
if ($version >= 17)
{
	check_node($plain, 'plain');
}
else
{
	is(counters($plain), 'lookups  maybes  adds  new  bulk  errors  false ', 'without preloading nothing is counted');
	is($plain->safe_psql('postgres', q{
select bloom_might_contain('username_filter', 'user1'), bloom_report_false_positive('username_filter'),
       bloom_stat_reset('username_filter'), bloom_stat_reset()}), 't|||', 'and nothing is an error');
}
$plain->stop;

done_testing();
