# Counters without memory: where the segment that holds them cannot be made, every call works all the
# same, and the columns of the counters are null. With dynamic_shared_memory_type = mmap a segment is
# a file, and a folder that nobody may write to is like a full /dev/shm.
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
$node->append_conf('postgresql.conf', q{
fsync = off
dynamic_shared_memory_type = mmap
min_dynamic_shared_memory = 0
shared_preload_libraries = ''
});
$node->start;
plan skip_all => 'the server has no named segments'
  if $node->safe_psql('postgres', 'show server_version_num') < 170000;

my $segments = $node->data_dir . '/pg_dynshmem';

# Lets segments be made, or not.
sub let_make
{
	my ($may) = @_;
	chmod($may ? 0700 : 0500, $segments) or die "chmod $segments: $!";
	return;
}

# The output of a new session, which must not raise an error or a warning.
sub quiet
{
	my ($sql, $name) = @_;
	my ($out, $err);
	my $code = $node->psql('postgres', $sql, stdout => \$out, stderr => \$err);
	is("$code $err", '0 ', $name);
	return $out;
}

my $counters = q{
select count(*), count(lookups), count(maybes), count(maybe_share), count(adds), count(new_items), count(bulk_calls),
       count(errors), count(false_positives), count(measured_fp_rate), count(stats_since)
from bloom_filters where status = 'ready';
select count(*), count(stats_since) from bloom_stats('f')};
my $none = "1|0|0|0|0|0|0|0|0|0|0\n1|0";

$node->safe_psql('postgres', q{
set client_min_messages = warning;
create extension bloomfilter;
create table users (name text);
insert into users select 'name ' || i from generate_series(1, 2000) i});

let_make(0);
my ($code, undef, $error) = $node->psql('postgres',
	'set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; set parallel_tuple_cost = 0;
	 set min_parallel_table_scan_size = 0; select count(*) from users');
like("$code $error", qr/^3 .*could not open shared memory segment|^0/, 'no segment can be made');

# Each in a session of its own: its first call is the one that finds no memory.
quiet(q{set client_min_messages = warning; select bloom_create('f', 1000, source => 'values (''ada'')')}, 'a filter is made');
is(quiet(q{select bloom_might_contain('f', 'ada'), bloom_might_contain('f', 'eve')}, 'a check'), 't|f', 'the answers of a check');
is(quiet(q{select bloom_might_contain_many('f', '{ada,eve}')}, 'many checks'), '{t,f}', 'their answers');
is(quiet(q{select bloom_might_contain_any('{f}', 'eve')}, 'a check of any filter'), '{}', 'its answer');
is(quiet(q{select bloom_add('f', 'bob')}, 'an add'), 't', 'which was new');
is(quiet(q{select bloom_add_many('f', '{eve,fay}')}, 'adds'), '2', 'which were new');
quiet(q{select bloom_report_false_positive('f')}, 'a report');
quiet(q{select bloom_stat_reset('f')}, 'a reset');
quiet(q{select bloom_stat_reset()}, 'a reset of all');
quiet(q{set client_min_messages = warning; call bloom_rebuild('f', 'values (''ada''), (''bob'')', grace => '0', min_share => 0)}, 'a rebuild');
quiet(q{set client_min_messages = warning; call bloom_grow('f')}, 'a growth');
is(quiet($counters, 'the view'), $none, 'which has the filter, and no counters');

# One session: the first call in a savepoint that is rolled back, and what it had before is kept.
is(quiet(q{
begin;
select bloom_create('g', 1000, ready => true) is null;
savepoint one;
select bloom_add('g', 'zoe');
rollback to one;
select bloom_add('g', 'ann');
commit;
begin transaction isolation level serializable read only;
select bloom_might_contain_many('g', '{ann,zoe}');
commit;
do $$ begin
    perform bloom_might_contain('g', 'x'), 1 / 0;
exception when division_by_zero then null;
end $$;
select bloom_might_contain('g', 'ann');
select pg_advisory_lock(1), pg_advisory_unlock(1);
drop table g}, 'transactions, savepoints and errors'), "f\nt\nt\n{t,f}\nt\n|t", 'end as without counters');

# An error of a check stays one.
my (undef, undef, $told) = $node->psql('postgres', q{select bloom_might_contain('users', 'ada')});
like($told, qr/cannot be used as a Bloom filter/, 'an error of a check is told');
my (undef, undef, $cancelled) = $node->psql('postgres',
	q{set statement_timeout = '1ms'; select count(*) from generate_series(1, 100000000) i where bloom_might_contain('f', i::text)});
like($cancelled, qr/canceling statement due to statement timeout/, 'and so is a cancel');

# When segments can be made again, no session fails that comes now. Whether it counts depends on
# the version of the server: some keep the place of a segment that was not made.
let_make(1);
is(quiet(q{select bloom_might_contain('f', 'ada'), bloom_might_contain('f', 'zed')}, 'a later session'), 't|f', 'and its answers');
quiet($counters, 'its view');
$node->restart;
quiet(q{select bloom_might_contain('f', 'ada')}, 'after a restart');
is(quiet(q{select lookups from bloom_stats('f')}, 'the counters'), '1', 'count');

# Memory that is reserved at the start needs no file.
$node->append_conf('postgresql.conf', "min_dynamic_shared_memory = '8MB'");
$node->restart;
let_make(0);
quiet(q{select bloom_might_contain('f', 'ada')}, 'with memory that is reserved');
is(quiet(q{select lookups from bloom_stats('f')}, 'the counters'), '1', 'count too');
let_make(1);
unlike($node->log_content, qr/PANIC|terminated by signal|TRAP/, 'no process failed');
$node->stop;
done_testing();
