# What others can do to a rebuild, and it to them: owners' DDL, default privileges, another filter's
# settings, a standby that does not follow, sign-ups in long transactions.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1, extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
$node->append_conf('postgresql.conf', q{
fsync = off
max_connections = 60
allow_in_place_tablespaces = on
});
$node->start;
$node->safe_psql('postgres', q{
create extension bloomfilter;
create table users as select 'user' || i as username from generate_series(1, 5000) i;
create tablespace elsewhere location '';
create role owner;
create role app;
grant create on schema public to owner;
grant select on users to owner;
grant create on tablespace elsewhere to owner;
alter default privileges grant all on tables to app;
alter default privileges for role owner grant all on tables to app;
});

sub value { return $node->safe_psql('postgres', $_[0]) }
sub denied
{
	return value(qq{select count(*) from users where not bloom_might_contain('$_[0]', username)});
}
sub make { return value(qq{set role owner; select bloom_create('$_[0]', 1e5, source => 'table users')}) }

my $source = q{select username from users, (select pg_advisory_xact_lock_shared(1)) held};
my $holder = $node->background_psql('postgres', on_error_stop => 0);
my $rebuild = $node->background_psql('postgres', on_error_stop => 0);
$rebuild->query_safe('set role owner');

my $said = '';
sub start
{
	my ($sql) = @_;
	$rebuild->{stderr} = '';
	# A quick one may be over already.
	$said = $rebuild->query_until(qr/sent/, "\\echo sent\n$sql;\n\\echo over\n");
	return;
}

sub finish
{
	$rebuild->query_until(qr/over/, '') unless $said =~ /over/;
	my $told = $rebuild->{stderr};
	$rebuild->{stderr} = '';
	return $told;
}

sub wait_for_status
{
	my ($filter, $expected) = @_;
	ok( $node->poll_query_until('postgres',
			qq{select status = '$expected' from bloom_filters where filter = '$filter'::regclass}),
		"$filter: $expected");
	return;
}

# A rebuild that waits in its source, with its journal open.
sub start_held
{
	my ($filter) = @_;
	$holder->query_safe('select pg_advisory_lock(1)');
	start(qq{call bloom_rebuild('$filter', '$source', grace => '0')});
	wait_for_status($filter, 'rebuilding: reading the source');
	return;
}

sub let_go { $holder->query_safe('select pg_advisory_unlock(1)'); return }

# ---- Nobody sees the rebuild's tables, whatever the default privileges

make('f');
my $relations = q{select count(*) from pg_class where relname ~ 'bloom_[0-9]'};
start_held('f');
is(value($relations), '0', 'no table beside the filter while it reads');
$node->safe_psql('postgres', q{grant select on f to app});
my $reader = $node->background_psql('postgres', on_error_stop => 0);
$reader->query_safe(q{begin; select bloom_might_contain('f', 'ada')});
let_go();
wait_for_status('f', 'rebuilding: swapping');
is(value($relations), '0', 'nor while it waits to swap');
is(value(qq{set role app; $relations}), '0', 'nor for a role that all tables are granted to');
my $file = value(q{select name from pg_ls_tmpdir()});
like($file, qr/bloom/, 'the journal is a file');
like(($node->psql('postgres', qq{set role app; select pg_read_binary_file('base/pgsql_tmp/$file')}))[2],
	qr/permission denied/, 'that no such role can read');

# ---- Another filter whose settings name this journal

make('other');
my $arguments = value(q{select string_agg(quote_literal(case when a like 'journal=%' then
	(select b from unnest(string_to_array(encode(f.tgargs, 'escape'), '\000')) b where b like 'journal=%') else a end), ', ')
from pg_trigger t, pg_trigger f, unnest(string_to_array(encode(t.tgargs, 'escape'), '\000')) a
where t.tgrelid = 'other'::regclass and f.tgrelid = 'f'::regclass and t.tgname = 'bloom_filter' and f.tgname = 'bloom_filter' and a <> ''});
like($arguments, qr/journal=[1-9]/, 'settings that name it');
value(qq{create or replace trigger bloom_filter before update or delete on other for each row
execute function bloom_guard($arguments);
alter table other enable always trigger bloom_filter});
is(value(q{select bloom_add('other', 'not in f'), bloom_might_contain('other', 'not in f')}), 't|t', 'adds go on');
is(value(q{select size from pg_ls_tmpdir()}), '0', 'and are not written to it');
$reader->query_safe('commit');
like(finish(), qr/holds about/, 'the rebuild ends');
is(value(q{select bloom_might_contain('f', 'not in f')}), 'f', 'without them');
is(denied('f'), '0', 'and denies nobody');

# ---- The owner changes the table during a rebuild

for my $change (
	[ 'alter table %s add column extra int', qr/cannot be used as a Bloom filter/ ],
	[ 'alter table %s drop column bits; alter table %s add column bits bit(8192) not null default 0::bit(8192)', qr/ERROR/ ],
	[ 'alter table %s rename bits to b; alter table %s add column bits bit(8192) not null default 0::bit(8192); alter table %s drop column b', qr/ERROR/ ],
	[ 'alter table %s set unlogged', qr/cannot be used as a Bloom filter/ ],
	[ 'drop trigger bloom_filter on %s', qr/cannot be used as a Bloom filter/ ],
	[ 'drop table %s', qr/ERROR/ ])
{
	my ($ddl, $error) = @$change;
	(my $sql = $ddl) =~ s/%s/changed/g;
	make('changed');
	start_held('changed');
	value("set role owner; $sql");
	let_go();
	my $told = finish();
	like($told, $error, $sql);
	unlike($told, qr/holds about/, 'nothing is exchanged');
	is(value(q{select count(*) from pg_ls_tmpdir()}), '0', 'nothing is left');
	value('drop table if exists changed');
}
# What leaves it as it is.
make('changed');
start_held('changed');
value('cluster changed using changed_pkey; vacuum full changed; reindex table changed; alter table changed rename to renamed');
let_go();
like(finish(), qr/holds about/, 'rewritten and renamed');
is(denied('renamed'), '0', 'and nobody is denied');

# Published after the rows were written: a subscriber would not learn of the exchange.
$reader->query_safe(q{begin; select bloom_might_contain('renamed', 'ada')});
start(q{call bloom_rebuild('renamed', 'table users', grace => '0')});
wait_for_status('renamed', 'rebuilding: swapping');
value('create publication late for table renamed');
$reader->query_safe('commit');
like(finish(), qr/cannot rebuild Bloom filter "renamed" because it is published/, 'published before the swap');
value('drop publication late');

# Moved to another tablespace: it stays there, or the rebuild fails where it wrote to the other.
value('drop table renamed');
for my $relation ('table changed', 'index changed_pkey')
{
	my ($name) = $relation =~ /(\w+)$/;
	my $place = qq{select spcname from pg_class c join pg_tablespace t on t.oid = reltablespace where relname = '$name'};
	make('changed');
	start_held('changed');
	value("set role owner; alter $relation set tablespace elsewhere");
	let_go();
	like(finish(), qr/holds about/, "moved before the writing: $relation");
	is(value($place), 'elsewhere', 'it stays where it was moved to');
	$reader->query_safe(q{begin; select bloom_might_contain('changed', 'ada')});
	start(q{call bloom_rebuild('changed', 'table users', grace => '0')});
	wait_for_status('changed', 'rebuilding: swapping');
	# That of the table waits for the reader, and comes before the swap; the reader does not hold the index.
	my $mover = $node->background_psql('postgres', on_error_stop => 0);
	$mover->query_until(qr/sent/, "\\echo sent\nalter $relation set tablespace pg_default;\n");
	ok($node->poll_query_until('postgres', qq{select count(*) > 0 from pg_locks where not granted and mode = 'AccessExclusiveLock'
		or exists (select from pg_class where relname = 'changed_pkey' and reltablespace = 0 and '$name' = relname)}), 'a move');
	$reader->query_safe('commit');
	like(finish(), qr/moved to another tablespace/, "moved after it: $relation");
	is(value($place), '', 'it stays there, too');
	is(denied('changed'), '0', 'and denies nobody');
	$mover->quit;
	value('drop table changed');
}

# ---- A source that yields another type than when it was looked at

make('changed');
value(q{create view names as select username from users limit 10; grant select on names to owner});
start(q{call bloom_rebuild('changed', 'table names', grace => '4 s', min_share => 0)});
wait_for_status('changed', 'rebuilding: waiting for sign-ups under way');
value(q{drop view names; create view names as select bloom_value('f') as taken; grant select on names to owner});
like(finish(), qr/source of Bloom filter "changed" returns another type than when the call began/, 'is refused');
value('drop view names; drop table changed');

# ---- A name that is taken for the shadow's

value(q{create table bloom_1_shadow (); create type bloom_2_shadow as (a int)});
value(q{set role owner; create table "bloom_} . value(q{select 'f'::regclass::oid}) . q{_shadow" ()});
start(q{call bloom_rebuild('f', 'table users', grace => '0')});
like(finish(), qr/holds about/, 'a table by its name is not in the way');

# ---- Sign-ups of 200 ms keep twenty clients busy: it opens and swaps all the same

my $script = PostgreSQL::Test::Utils::tempdir() . '/long.sql';
append_to_file($script, q{
\set n random(1, 2000000000)
\set ms random(100, 300)
begin;
select bloom_add('f', 'long' || :n);
insert into users values ('long' || :n);
\sleep :ms ms
commit;
});
my ($out, $err) = ('', '');
my $traffic = IPC::Run::start(
	[ 'pgbench', '-n', '-c', 20, '-j', 2, '-T', 25, '-f', $script, $node->connstr('postgres') ],
	'>', \$out, '2>', \$err);
usleep(500_000);
my $began = time;
start(q{call bloom_rebuild('f', 'table users', grace => '1 s')});
my $told = finish();
like($told, qr/holds about/, 'a rebuild beside sign-ups that take 100 to 300 ms');
cmp_ok(time - $began, '<', 24, 'is done while they go on');
cmp_ok(scalar(() = $told =~ /waiting for process/g), '<=', 2, 'and tells seldom that it waits');
ok($traffic->finish, 'no sign-up failed') or diag($err);
is(denied('f'), '0', 'and nobody is denied');

# ---- Who checks and adds in one transaction is in no deadlock with a swap

my $both = PostgreSQL::Test::Utils::tempdir() . '/both.sql';
append_to_file($both, q{
\set n random(1, 2000000000)
begin;
select bloom_might_contain('f', 'both' || :n);
\sleep 1 ms
select bloom_add('f', 'both' || :n);
insert into users values ('both' || :n);
commit;
});
($out, $err) = ('', '');
$traffic = IPC::Run::start(
	[ 'pgbench', '-n', '-c', 8, '-j', 2, '-T', 12, '-f', $both, $node->connstr('postgres') ],
	'>', \$out, '2>', \$err);
usleep(500_000);
for (1 .. 5)
{
	start(q{call bloom_rebuild('f', 'table users', grace => '0.5 s', min_share => 0)});
	like(finish(), qr/holds about/, 'a rebuild beside sign-ups that check first');
}
ok($traffic->finish, 'no sign-up failed') or diag($err);
unlike($err, qr/deadlock|aborted/, 'nor was any in a deadlock');
is(denied('f'), '0', 'and nobody is denied');

# ---- A standby that cannot follow does not stop anybody here

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1");
$standby->start;
$node->wait_for_catchup($standby, 'replay', $node->lsn('flush'));
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'standby'");
$node->reload;
my $idle = $standby->background_psql('postgres', on_error_stop => 0);
$idle->query_safe(q{begin; select bloom_might_contain('f', 'user1')});
$rebuild->query_safe('set synchronous_commit = remote_apply');
start(q{call bloom_rebuild('f', 'table users', grace => '0')});
ok($node->poll_query_until('postgres', q{select count(*) > 0 from pg_stat_activity where wait_event = 'SyncRep' and query ~ 'bloom_rebuild'}),
	'the rebuild waits for the standby');
$began = time;
is(value(q{select bloom_might_contain('f', 'user1')}), 't', 'checks go on');
is(value(q{set synchronous_commit = local; select bloom_add('f', 'meanwhile')}), 't', 'and adds');
cmp_ok(time - $began, '<', 30, 'at once');
is(value(q{select status from bloom_filters where filter = 'f'::regclass}), 'ready', 'the swap is done');
$idle->query_safe('commit');
like(finish(), qr/holds about/, 'and the rebuild ends with the reader');
is($standby->safe_psql('postgres', q{select count(*) from users where not bloom_might_contain('f', username)}),
	'0', 'nobody is denied there');

$_->quit for $holder, $rebuild, $reader, $idle;
$standby->stop;
$node->stop;
done_testing();
