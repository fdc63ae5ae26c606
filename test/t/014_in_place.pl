# The names of one transaction make one version of a row between them: its bits are set where it
# lies. They go with the transaction or the savepoint that set them, are in every standby and after
# every crash, and are not to be had by logical decoding.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1, extra => [ '--encoding=UTF8', '--locale=C', '--no-sync' ]);
# Replay compares pages with what they were on the primary; not after generic records, which would
# take hint bits for a difference.
$node->append_conf('postgresql.conf', q{
wal_consistency_checking = 'heap, heap2, btree'
max_prepared_transactions = 5
autovacuum = off
wal_keep_size = '512MB'
});
$node->start;
$node->safe_psql('postgres', q{
create extension bloomfilter;
create table names as select 'n' || i as name from generate_series(1, 20000) i;
create function denied(prefix text, upto int) returns bigint language plpgsql as $$ begin
    return (select count(*) from generate_series(1, upto) i
            where not bloom_might_contain('f', prefix || i));
end $$;
});
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

sub again
{
	$node->safe_psql('postgres', q{drop table if exists f cascade;
select bloom_create('f', 50000, ready => true, chunks => 200)});
	$node->safe_psql('postgres', q{create or replace view versions as
select pg_stat_get_xact_tuples_updated('f'::regclass) as made});
}

# One statement, whatever the number of names: a version a chunk.
again();
is($node->safe_psql('postgres', q{
begin;
select count(bloom_add('f', name)) from names;
select made from versions;
select denied('n', 20000);
commit;
}), "20000\n200\n0", 'one version a chunk');
is($node->safe_psql('postgres', q{select denied('n', 20000), denied('m', 100) > 90}), '0|t',
	'every name is in, and no other');
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', q{select denied('n', 20000), denied('m', 100) > 90}), '0|t',
	'on the standby too, whose pages are the same');
is($node->safe_psql('postgres', q{
begin;
select count(bloom_add_many('f', array[name, 'x' || name])) from names where name like 'n1%';
do $$ begin for i in 1..1000 loop perform bloom_add('f', 'loop' || i); end loop; end $$;
select made from versions;
commit;
select denied('loop', 1000);
}), "11111\n200\n0", 'so do calls, batches and loops of one transaction');

# Others see them from the commit on, and not before.
again();
my $writer = $node->background_psql('postgres');
$writer->query_safe(q{begin; select count(bloom_add('f', 'a' || i)) from generate_series(1, 500) i});
is($node->safe_psql('postgres', q{select denied('a', 500)}), '500', 'not before the commit');
my $waiting = $node->background_psql('postgres');
$waiting->query_until(qr/begun/, "\\echo begun\nselect bloom_add_many('f',
array(select 'b' || i from generate_series(1, 500) i));\n");
$node->poll_query_until('postgres', q{select count(*) > 0 from pg_stat_activity
where wait_event_type = 'Lock'}) or die 'nobody waits';
$writer->query_safe(q{select count(bloom_add('f', 'c' || i)) from generate_series(1, 500) i});
$writer->query_safe('commit');
$waiting->query_safe('select 1');
is($node->safe_psql('postgres', q{select denied('a', 500), denied('b', 500), denied('c', 500)}),
	'0|0|0', 'an add that waited has the bits of all');
$writer->quit;
$waiting->quit;

# Savepoints. Names of the same chunk, so that each could have been set in the other's version.
again();
$node->safe_psql('postgres', q{create table s as select row_number() over () as n, name
from names where bloom_chunk(name, 200) = 7 limit 8});
my $s = q{select n from s where not bloom_might_contain('f', name) order by n};
is($node->safe_psql('postgres', qq{
begin;
select bloom_add('f', name) from s where n = 1;
savepoint a;
select bloom_add('f', name) from names where bloom_chunk(name, 200) = 8 limit 1;
select bloom_add('f', name) from s where n in (2, 3);
$s;
rollback to a;
$s;
select bloom_add('f', name) from s where n = 4;
savepoint b;
select bloom_add('f', name) from s where n = 5;
release b;
select bloom_add('f', name) from s where n = 6;
select made from versions;
savepoint c;
savepoint d;
select bloom_add('f', name) from s where n = 7;
release d;
select bloom_add('f', name) from s where n = 8;
rollback to c;
$s;
commit;
}), join("\n", 't', 't', 't', 't', 4 .. 8, 2 .. 8, 't', 't', 't', 5, 't', 't', 2, 3, 7, 8),
	'what a savepoint took back is gone, what was set before and after it is not');
is($node->safe_psql('postgres', $s), "2\n3\n7\n8", 'nor after the commit');
is($node->safe_psql('postgres', qq{
begin;
select bloom_add('f', name) from s where n = 2;
select bloom_add('f', name) from s where n = 3;
rollback;
$s;
}), "t\nt\n2\n3\n7\n8", 'rolled back');

# A transaction with a child for each name still goes straight to its last version.
again();
is($node->safe_psql('postgres', q{
do $$ begin
    for i in 1..3000 loop
        begin perform bloom_add('f', 'e' || i); if i % 3 = 0 then raise 'x'; end if;
        exception when raise_exception then null; end;
    end loop;
end $$;
select count(*) from generate_series(1, 3000) i
where i % 3 <> 0 and not bloom_might_contain('f', 'e' || i);
}), '0', 'a child for each name');

# A row lock of another on the version that is written.
again();
$writer = $node->background_psql('postgres');
my $locker = $node->background_psql('postgres');
$writer->query_safe(q{begin; select bloom_add('f', name) from s where n = 1});
$locker->query_safe(q{begin; select chunk from f where chunk = 7 for key share});
$writer->query_safe(q{select bloom_add('f', name) from s where n > 1});
$locker->query_safe('commit');
$writer->query_safe('commit');
is($node->safe_psql('postgres', $s), '', 'a lock on the key is no matter');
$_->quit for $writer, $locker;

# Crash, and a prepared transaction.
$node->safe_psql('postgres', q{
begin;
select count(bloom_add('f', 'p' || i)) from generate_series(1, 1000) i;
prepare transaction 'p';
begin;
});
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', q{select denied('p', 1000) > 900}), 't', 'prepared, not committed');
$node->safe_psql('postgres', q{commit prepared 'p'});
is($node->safe_psql('postgres', q{select denied('p', 1000)}), '0', 'after a crash');
again();
$node->safe_psql('postgres', q{checkpoint});
$node->safe_psql('postgres', q{select count(bloom_add('f', 'q' || i)) from generate_series(1, 5000) i});
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', q{select denied('q', 5000)}), '0', 'after a crash, in place');
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', q{select denied('q', 5000)}), '0', 'on the standby');

# A filter that is made in the same transaction, of which nothing is logged.
$node->append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0");
$standby->stop;
$node->restart;
$node->safe_psql('postgres', q{drop table f cascade;
begin;
select bloom_create('f', 50000, ready => true, chunks => 200);
select count(bloom_add('f', 'w' || i)) from generate_series(1, 5000) i;
commit});
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', q{select denied('w', 5000)}), '0', 'wal_level = minimal');

# Logical decoding knows row versions only: there each add makes one, and a subscriber has all.
$node->append_conf('postgresql.conf', "wal_level = logical\nmax_wal_senders = 5\nwal_consistency_checking = ''");
$node->restart;
again();
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init(allows_streaming => 'logical',
	extra => [ '--encoding=UTF8', '--locale=C', '--no-sync' ]);
$subscriber->start;
$subscriber->safe_psql('postgres', q{create extension bloomfilter;
create table f (chunk int primary key, bits bit(8192) not null)});
$node->safe_psql('postgres', 'create publication p for table f');
$subscriber->safe_psql('postgres', q{create subscription s connection '} . $node->connstr
	. q{ dbname=postgres' publication p});
$subscriber->wait_for_subscription_sync($node, 's');
$subscriber->safe_psql('postgres', q{select bloom_register('f', 'lower')});
is($node->safe_psql('postgres', q{begin;
select count(bloom_add('f', name)) from names where name like 'n1%';
select made > 5000 from versions;
commit}), "11111\nt", 'a version each where changes are decoded');
$node->wait_for_catchup('s');
is($subscriber->safe_psql('postgres', q{select count(*) from generate_series(1, 20000) i
where 'n' || i like 'n1%' and not bloom_might_contain('f', 'n' || i)}), '0', 'a subscriber has all');

$subscriber->stop;
$node->stop;
done_testing();
