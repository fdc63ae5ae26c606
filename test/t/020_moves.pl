# Filters over shards that are read by postgres_fdw: a name that moves or is renamed while a rebuild
# reads the shards; an add and an insert in one transaction; a build on the shards.
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('hub');
$node->init(allows_streaming => 1, extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
$node->append_conf('postgresql.conf', q{
fsync = off
shared_preload_libraries = 'pg_stat_statements'
});
$node->start;

my $first_names = 2000;

# The result of a statement on the hub, and on a shard.
sub value { return $node->safe_psql('postgres', $_[0]) }
sub on_shard { return $node->safe_psql("shard_$_[0]", $_[1]) }

# What a statement on the hub says instead of a result.
sub told { return ($node->psql('postgres', $_[0]))[2] }

# Whether the filter may contain the name: t or f.
sub asked { return value(qq{select bloom_might_contain('username_filter', '$_[0]')}) }

value(q{create extension bloomfilter; create extension postgres_fdw; create extension pg_stat_statements});
value(q{create table users (id int, username text) partition by hash (id)});
value(q{create schema far});
my ($host, $port) = ($node->host, $node->port);
for my $shard (0, 1)
{
	value("create database shard_$shard");
	on_shard($shard, qq{
create extension bloomfilter;
create table users (id int, username text);
create table invoices (username text);
insert into users select i, 'name ' || i from generate_series(1, $first_names) i where i % 2 = $shard;
insert into users values (0, 'gate $shard');
create function refuse() returns trigger language plpgsql as 'begin raise exception ''refused''; end';
create constraint trigger refuse after insert on invoices deferrable initially deferred
for each row execute function refuse()});
	# Commits of a shard do not wait for the standby that the hub lacks below.
	value("alter database shard_$shard set synchronous_commit = local");
	value(qq{
create server shard_$shard foreign data wrapper postgres_fdw
options (host '$host', port '$port', dbname 'shard_$shard', extensions 'bloomfilter');
create user mapping for current_user server shard_$shard;
create foreign table far.users_$shard partition of users for values with (modulus 2, remainder $shard)
server shard_$shard options (schema_name 'public', table_name 'users');
create foreign table far.invoices_$shard (username text)
server shard_$shard options (schema_name 'public', table_name 'invoices')});
}
# Waits at the last name of the first shard, as if that shard took long to read.
value(q{create function held(username text) returns text language plpgsql as $$
begin
    if username = 'gate 0' then perform pg_advisory_xact_lock_shared(1); end if;
    return username;
end $$});
value(q{select bloom_create('username_filter', 1e5, source => 'select username from users')});
is(value('select count(*) from users'), $first_names + 2, 'the users of both shards');

my $holder = $node->background_psql('postgres');
my $rebuild = $node->background_psql('postgres', on_error_stop => 0);

# Runs `meanwhile` while a rebuild from the source has read the first shard and not the second.
sub during_rebuild
{
	my ($source, $meanwhile, $role) = @_;
	$holder->query_safe('select pg_advisory_lock(1)');
	$rebuild->query_safe('set role ' . ($role // 'none'));
	$rebuild->query_until(qr/sent/, "\\echo sent\ncall bloom_rebuild('username_filter', '$source', grace => '0');\n\\echo over\n");
	$node->poll_query_until('postgres', q{select exists (select from pg_locks
		where locktype = 'advisory' and not granted)}) or die 'the rebuild does not wait at the gate';
	$meanwhile->();
	$holder->query_safe('select pg_advisory_unlock(1)');
	$rebuild->query_until(qr/over/, '');
	like($rebuild->{stderr}, qr/holds about/, 'rebuilt');
	$rebuild->{stderr} = '';
	return;
}

# Moves the user from the second shard to the first, as is right: in two transactions, insert first.
sub move
{
	my ($name) = @_;
	on_shard(0, "insert into users values (7, '$name')");
	on_shard(1, "delete from users where username = '$name'");
	return;
}

# ---- A name that moves from a shard that is still to be read to one that was read

on_shard(1, q{insert into users values (7, 'mover'), (7, 'by view'), (7, 'by parent'), (7, 'by function'), (7, 'lone')});
during_rebuild('select held(username) from users', sub { move('mover') });
is(asked('mover'), 't', 'a name that moves during a rebuild is not denied');
is(value(q{select count(*) from users where not bloom_might_contain('username_filter', username)}), '0',
	'nor is any other');

# The source of a role that may read a view alone, with the owner's user mapping; and of one that may
# read the partitioned table alone, with its own.
value(qq{
create role app;
grant create on schema public to app;
create view names as select username from users;
grant select on names to app;
alter table username_filter owner to app});
like(told(q{set role app; select * from far.users_1}), qr/permission denied for schema far/,
	'no way to a shard by itself');
during_rebuild('select held(username) from names', sub { move('by view') }, 'app');
is(asked('by view'), 't', 'read through a view');
value(qq{
grant select on users to app;
create user mapping for app server shard_0 options (user '${\ value('select current_user')}', password_required 'false');
create user mapping for app server shard_1 options (user '${\ value('select current_user')}', password_required 'false')});
during_rebuild('select held(username) from users', sub { move('by parent') }, 'app');
is(asked('by parent'), 't', 'read through the partitioned table');
value('alter table username_filter owner to current_user');

# What is in a function is not seen in the plan: this is how it was everywhere.
value(q{create function all_names() returns setof text language plpgsql as $$
begin
    return query select held(username) from far.users_0;
    return query select username from far.users_1;
end $$});
during_rebuild('select all_names()', sub { move('by function') });
is(asked('by function'), 'f', 'foreign tables in a function are read as they come, and a name is lost');
value(q{select bloom_add('username_filter', 'by function')});

# The other way: whoever moves a user calls bloom_add first, and commits.
during_rebuild('select all_names()', sub { value(q{select bloom_add('username_filter', 'lone')}); move('lone') });
is(asked('lone'), 't', 'added first, it is kept wherever it is read');

# ---- A rename on a shard during a rebuild

# Renames a user on the second shard.
sub rename_user { return on_shard(1, "update users set username = '$_[1]' where username = '$_[0]'") }

during_rebuild('select held(username) from users', sub { rename_user('name 1', 'renamed 1') });
is(asked('renamed 1'), 'f', 'a rename without an add is denied: no snapshot has the new name');
during_rebuild('select held(username) from users', sub {
	value(q{select bloom_add('username_filter', 'renamed 3')});
	rename_user('name 3', 'renamed 3');
});
is(asked('renamed 3'), 't', 'added and committed first, it is not');
value(q{select bloom_add('username_filter', 'renamed 1')});

# ---- An add and an insert in one transaction

# The hub waits in its commit for a standby; the shard has committed before.
value(q{alter system set synchronous_standby_names = 'nobody'});
$node->reload;
my $both = $node->background_psql('postgres');
$both->query_until(qr/sent/, q{\echo sent
begin; select bloom_add('username_filter', 'both'); insert into far.users_0 values (8, 'both'); commit;
\echo over
});
$node->poll_query_until('postgres', q{select exists (select from pg_stat_activity where wait_event = 'SyncRep')})
	or die 'the commit does not wait';
is(on_shard(0, q{select count(*) from users where username = 'both'}), '1', 'the shard has committed');
is(asked('both'), 'f', 'and the filter denies a user who exists');
# The same in two transactions: the add waits, and the insert waits for the add.
my $first = $node->background_psql('postgres');
$first->query_until(qr/sent/, q{\echo sent
select bloom_add('username_filter', 'one after the other');
insert into far.users_0 values (8, 'one after the other');
\echo over
});
$node->poll_query_until('postgres', q{select count(*) = 2 from pg_stat_activity where wait_event = 'SyncRep'})
	or die 'the add does not wait';
is(on_shard(0, q{select count(*) from users where username = 'one after the other'}), '0',
	'in two transactions the user is not there yet');
is(asked('one after the other'), 'f', 'so no is the right answer');
value(q{alter system reset synchronous_standby_names});
$node->reload;
for my $session ($both, $first)
{
	$session->query_until(qr/over/, '');
	$session->quit;
}
is(asked('both') . asked('one after the other'), 'tt', 'later both are maybe');

# One shard has committed and the other refuses, so the hub rolls the add back. The order of the two
# commits is not known, so each shard is once the one that refuses.
my $lost = q{select count(*) from users where username ~ '^paid' and not bloom_might_contain('username_filter', username)};
for my $shard (0, 1)
{
	my $other = 1 - $shard;
	like(told(qq{begin; select bloom_add('username_filter', 'paid $shard');
insert into far.users_$shard values (9, 'paid $shard');
insert into far.invoices_$other values ('paid $shard');
commit}), qr/refused/, 'the transaction fails in its commit');
}
is(value($lost), '1', 'an add in the same transaction is gone, and a user who exists is denied for good');
is(value(q{select bloom_add_many('username_filter', '{paid 0,paid 1}')}), '2', 'neither was added');
for my $shard (0, 1)
{
	my $other = 1 - $shard;
	value("select bloom_add('username_filter', 'paid later $shard')");
	like(told(qq{begin;
insert into far.users_$shard values (9, 'paid later $shard');
insert into far.invoices_$other values ('paid later $shard');
commit}), qr/refused/, 'the same failure');
}
is(value(q{select count(*) from users where username ~ '^paid later'}), '1', 'one of the two exists again');
is(value($lost), '0', 'and with the add committed first, nobody is denied');

# ---- A build on the shards, which are told the number of chunks

my $union = q{select bloom_union_agg(v) from (
	select bloom_agg_chunks(username, $1, 'lower') v from far.users_0
	union all select bloom_agg_chunks(username, $1, 'lower') from far.users_1) u};

# The statement as SQL text in a literal of SQL.
sub quoted { return "\$source\$$_[0]\$source\$" }

my $plan = value(qq{set plan_cache_mode = force_generic_plan;
prepare build (int) as $union;
explain (verbose, costs off) execute build (128)});
is(() = $plan =~ /Remote SQL: SELECT public\.bloom_agg_chunks\(username, \$1::integer, 'lower'::text\) FROM public\.users/g,
	2, 'the aggregate is computed on the shards, with a parameter');

# How many rows the shards have sent since the statistics were reset.
my $sent = q{select coalesce(sum(rows), 0) from pg_stat_statements s join pg_database d on d.oid = s.dbid
where datname ~ '^shard' and query ~* '^fetch'};
value(q{select pg_stat_statements_reset()});
value(qq{select bloom_create('built', 1e5, source => @{[ quoted($union) ]})});
# One value a shard, and one row a shard for the snapshot.
is(value($sent), '4', 'one row a shard travels');
value(q{select bloom_create('pulled', 1e5, source => 'select username from users')});
is(value(q{select bloom_value('built') = bloom_value('pulled')}), 't', 'the same bits as from names');
cmp_ok(value($sent), '>', $first_names, 'for which every name travels');

# Over 80 % full: it grows, and the shards build for the new number of chunks.
value(qq{select bloom_create('full', 1000, chunks => 128, source => 'select username from users')});
like(told(qq{call bloom_rebuild('full', @{[ quoted($union) ]}, grace => '0')}),
	qr/"full" is rebuilt for \d+ items.*holds about \d+ items/s, 'it grows');
is(value(q{select count(*) from users where not bloom_might_contain('full', username)}), '0', 'with all names');
like(told(qq{call bloom_rebuild('full', @{[ quoted($union) ]}, 2e6, grace => '0')}),
	qr/in 2348 chunks/, 'and has the chunks of a capacity that is given');
is(value(q{select count(*) from users where not bloom_might_contain('full', username)}), '0', 'with all names');

# ---- A shard that is down

value('alter database shard_1 allow_connections false');
my $error = told(q{call bloom_rebuild('pulled', 'select username from users', grace => '1 hour')});
like($error, qr/could not connect to server "shard_1"/, 'a shard that is down fails a rebuild');
unlike($error, qr/waiting/, 'before it waits');
is(value(q{select status from bloom_filters where filter = 'pulled'::regclass}), 'ready', 'and nothing is left');

$holder->quit;
$rebuild->quit;
$node->stop;
done_testing();
