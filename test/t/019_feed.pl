# The feed: names that did not come through the sign-up reach the filter by an outbox on each shard, a
# queue beside the filter, and bloom_drain. Servers stop and come back, a shard is cut off for longer
# than its WAL is kept: at the end no name of a shard is denied.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @utf8 = (allows_streaming => 'logical', extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
# One server with two databases, each of them a shard.
my $shards = PostgreSQL::Test::Cluster->new('shards');
$shards->init(allows_streaming => 'logical',
	extra => [ '--encoding=UTF8', '--locale=C.UTF-8', '--wal-segsize=1' ]);
$shards->append_conf('postgresql.conf', "max_wal_size = 4MB\nmin_wal_size = 2MB\n");
$shards->start;
my $home = PostgreSQL::Test::Cluster->new('home');
$home->init(@utf8);
$home->append_conf('postgresql.conf', "wal_retrieve_retry_interval = 100\n");
$home->start;
my @shards = ('shard_0', 'shard_1');

# What a shard has: an outbox, filled by triggers, and published alone. The role that signs users up
# may write to the outbox, and nothing else.
my $shard_sql = q{
create table users (username text primary key, logins int not null default 0);
create table username_feed (username text);
create function feed_username() returns trigger language plpgsql as $$
begin
    insert into public.username_feed values (new.username);
    return null;
end $$;
create trigger feed_insert after insert on users
    for each row execute function feed_username();
create trigger feed_rename after update on users
    for each row when (old.username is distinct from new.username) execute function feed_username();
alter table users enable always trigger feed_insert, enable always trigger feed_rename;
create publication username_feed for table username_feed with (publish = 'insert');
insert into users select current_database() || '_early' || i from generate_series(1, 500) i;
grant select, insert, update on users to app;
grant insert on username_feed to app;
};
$shards->safe_psql('postgres', 'create role app login; create role feed login replication');
for my $shard (@shards)
{
	$shards->safe_psql('postgres', "create database $shard");
	$shards->safe_psql($shard, $shard_sql);
}

# The filter's side: the users as foreign partitions, the filter, the queue.
my $socket = $shards->host;
my $port = $shards->port;
$home->safe_psql('postgres', q{
create extension bloomfilter;
create extension postgres_fdw;
create table users (username text, logins int) partition by hash (username);
select bloom_create('username_filter', 100000);
create table username_feed (username text);
});
for my $i (0, 1)
{
	$home->safe_psql('postgres', qq{
create server shard_$i foreign data wrapper postgres_fdw
    options (host '$socket', port '$port', dbname 'shard_$i');
create user mapping for current_user server shard_$i;
create foreign table users_$i partition of users
    for values with (modulus 2, remainder $i) server shard_$i options (table_name 'users')});
}

# Subscribes to the outbox of a shard, as a role that may replicate and read no table. Names that are
# in the shard already are not copied: the rebuild that follows reads them.
sub subscribe
{
	my ($shard) = @_;
	my $connection = $shards->connstr . " dbname=$shard user=feed";
	$home->safe_psql('postgres', qq{
create subscription $shard connection '$connection' publication username_feed with (copy_data = false)});
}

# Runs statements on a shard, as the role of the application.
sub sign_up
{
	my ($shard, $sql) = @_;
	$shards->safe_psql($shard, "set role app; $sql");
}

# Waits until the queue has what the shards have committed.
sub catch_up
{
	$shards->wait_for_catchup($_) for @shards;
}

# Empties the queue as a job would: until there is nothing left. Returns the number of names.
sub drain
{
	my $all = 0;
	while (my $taken = $home->safe_psql('postgres', q{select bloom_drain('username_filter', 'username_feed', 1000)}))
	{
		$all += $taken;
	}
	return $all;
}

# The audit: how many users of all shards the filter denies.
sub denied
{
	return $home->safe_psql('postgres',
		q{select count(*) from (select username from users offset 0) u where not bloom_might_contain('username_filter', username)});
}

# The rebuild that loads the filter from all shards.
sub rebuild
{
	$home->safe_psql('postgres',
		q{call bloom_rebuild('username_filter', 'select username from users', grace => '0', min_share => 0)});
}

# First the subscriptions, then the rebuild. Whoever signs up in between is in both.
subscribe($_) for @shards;
sign_up('shard_0', q{insert into users values ('between')});
rebuild();
is(denied(), '0', 'the rebuild loads what the shards have');
catch_up();
is(drain(), 1, 'what came after the subscription is in the queue, what came before is not');

# Rows of another server are not for bloom_add_trigger: that server commits before this one commits
# the names. Neither for each row nor for each statement.
for my $form ('after insert on users for each row',
	'after insert on users referencing new table as added for each statement')
{
	my ($status, $output, $told) = $home->psql('postgres', qq{
begin;
create trigger add_name $form execute function bloom_add_trigger('public.username_filter', 'username');
insert into users select 'remote' || i, 0 from generate_series(1, 10) i});
	# The second message is the server's own, of newer minor versions.
	like($told, qr/Its table has rows on another server|transition tuples from child foreign tables/, "refused: $form");
}
is($home->safe_psql('postgres', q{select count(*) from users where username like 'remote%'}), '0',
	'and the rows are not there');

# A virtual column has no value in the row, and would be taken for null.
SKIP:
{
	skip 'no virtual generated columns before PostgreSQL 18', 1 if $home->pg_version < 18;
	my ($status, $output, $told) = $home->psql('postgres', q{
begin;
create table virtual (username text, login text generated always as (username || '@home') virtual);
create trigger add_login after insert on virtual
    for each row execute function bloom_add_trigger('public.username_filter', 'login');
insert into virtual values ('ada')});
	like($told, qr/cannot add the names of virtual generated column "login"/, 'a virtual column is refused');
}

# It lags: until the drain, the filter denies a name that has a user.
sign_up('shard_0', q{insert into users values ('Ada')});
sign_up('shard_1', q{insert into users select 'bulk' || i from generate_series(1, 3000) i});
catch_up();
isnt(denied(), '0', 'a name that has not been drained is denied: a net, not the sign-up');
is(drain(), 3001, 'the drain takes all');
is(denied(), '0', 'and nobody is denied');

# Renames, updates of something else, duplicates, a user who moves from shard to shard.
sign_up('shard_0', q{update users set username = 'Augusta' where username = 'Ada'});
sign_up('shard_0', q{update users set logins = logins + 1});
sign_up('shard_1', q{insert into users values ('between') on conflict do nothing});
sign_up('shard_1', q{insert into users values ('between2'), ('BETWEEN')});
$shards->safe_psql('shard_1', q{delete from users where username = 'between2'});
sign_up('shard_0', q{insert into users values ('between2')});
# Replication of the users themselves, and a restore, write as a replica does.
$shards->safe_psql('shard_0', q{set session_replication_role = replica; insert into users values ('moved')});
# A trigger that was there before changes the name under an update that does not mention it.
$shards->safe_psql('shard_1', q{
create function suffix() returns trigger language plpgsql as $$
begin new.username := new.username || '_changed'; return new; end $$;
create trigger suffix before update on users for each row execute function suffix();
update users set logins = 5 where username = 'bulk7';
drop trigger suffix on users});
catch_up();
is(drain(), 7, 'each change of a name came, and no other update');
is(denied(), '0', 'nobody is denied after renames and moves');

# The outbox can be emptied at any time: replication reads WAL. That does not travel.
sign_up('shard_0', q{insert into users values ('emptied')});
$shards->safe_psql('shard_0', q{delete from username_feed});
sign_up('shard_1', q{insert into users values ('truncated')});
$shards->safe_psql('shard_1', q{truncate username_feed});
catch_up();
is($home->safe_psql('postgres', q{select string_agg(username, ' ' order by username) from username_feed}),
	'emptied truncated', 'an emptied outbox leaves the queue as it is');
is(drain(), 2, 'and both names come');

# The shards go down, with names on the way, and come back.
sign_up('shard_0', q{insert into users select 'before_stop' || i from generate_series(1, 500) i});
$shards->stop('immediate');
cmp_ok(drain(), '<=', 500, 'the drain goes on while the shards are down');
$shards->start;
sign_up('shard_1', q{insert into users select 'after_stop' || i from generate_series(1, 500) i});
catch_up();
drain();
is(denied(), '0', 'nobody is denied after the shards were down');

# The filter's server goes down: names in the queue, a drain that has not committed, names that come
# meanwhile.
sign_up('shard_0', q{insert into users select 'in_queue' || i from generate_series(1, 500) i});
catch_up();
my $open = $home->background_psql('postgres');
is($open->query_safe(q{begin; select bloom_drain('username_filter', 'username_feed', 100)}), '100', 'a drain is open');
$home->stop('immediate');
eval { $open->quit };
sign_up('shard_1', q{insert into users select 'meanwhile' || i from generate_series(1, 500) i});
$home->start;
catch_up();
is(drain(), 1000, 'every name is drained after a crash, also of the drain that did not commit');
is(denied(), '0', 'nobody is denied after the filter was down');

# Two drains at a time, each in many transactions, beside sign-ups.
my @jobs = map {
	my $script = join "\n", (q{select bloom_drain('username_filter', 'username_feed', 100); select pg_sleep(0.02);}) x 30;
	IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $home->connstr('postgres') ],
		'<', \$script, '>', '/dev/null')
} (1, 2);
for my $round (1 .. 5)
{
	sign_up($_, qq{insert into users select '$_' || 'round$round' || i from generate_series(1, 400) i}) for @shards;
}
ok($_->finish, 'a drain beside another raises no error') for @jobs;
catch_up();
drain();
is(denied(), '0', 'nobody is denied after two drains');

# Stalled slots. The shards keep their WAL for 2 MB and then give it up: names in between are lost to
# the feed. The shards tell it, and the audit does.
$home->safe_psql('postgres', "alter subscription $_ disable") for @shards;
$home->poll_query_until('postgres', 'select count(*) = 0 from pg_stat_subscription where pid is not null')
  or die 'the subscriptions go on';
sign_up($_, qq{insert into users values ('lost on $_')}) for @shards;
$shards->safe_psql('postgres', q{alter system set max_slot_wal_keep_size = '2MB'});
$shards->reload;
$shards->safe_psql('postgres',
	q{select pg_logical_emit_message(false, 'fill', repeat('x', 900000)) is null; select pg_switch_wal() is null})
  for 1 .. 5;
$shards->safe_psql('postgres', 'checkpoint');
is($shards->safe_psql('postgres', q{select string_agg(wal_status, ' ') from pg_replication_slots}),
	'lost lost', 'the shards say that the slots are lost');
my $from = -s $home->logfile;
$home->safe_psql('postgres', "alter subscription $_ enable") for @shards;
$home->wait_for_log(qr/ERROR:  could not start WAL streaming: .*"$_"/, $from) for @shards;
drain();
is(denied(), '2', 'the audit finds the names that were lost');
# The repair, in this order. Suspended, the filter denies nobody.
$home->safe_psql('postgres', q{select bloom_suspend('username_filter')});
is(denied(), '0', 'a suspended filter denies nobody');
$home->safe_psql('postgres', "drop subscription $_") for @shards;
$shards->safe_psql('postgres', q{alter system reset max_slot_wal_keep_size});
$shards->reload;
subscribe($_) for @shards;
sign_up('shard_0', q{insert into users values ('after_repair')});
rebuild();
is($home->safe_psql('postgres', q{select status from bloom_filters}), 'ready', 'the rebuild makes it ready');
sign_up('shard_0', q{insert into users values ('later')});
catch_up();
drain();
is(denied(), '0', 'and the audit is clean');

# What not to do: the users are published as they are, and the landing table is kept empty. A rename is
# an update of a row that is not there. It is dropped, and nothing stops.
$shards->safe_psql('shard_0', 'create publication users for table users');
$home->safe_psql('postgres', 'create database landing');
my $connection = $shards->connstr . ' dbname=shard_0';
$home->safe_psql('landing', qq{
create extension bloomfilter;
select bloom_create('username_filter', 100000, ready => true);
create table users (username text primary key, logins int);
create function land() returns trigger language plpgsql as \$\$
begin perform public.bloom_add('public.username_filter', new.username); return null; end \$\$;
create trigger land before insert or update on users for each row execute function land();
alter table users enable always trigger land;
create subscription landing connection '$connection' publication users with (copy_data = false);
});
sign_up('shard_0', q{insert into users values ('maiden')});
sign_up('shard_0', q{update users set username = 'married' where username = 'maiden'});
$shards->wait_for_catchup('landing');
is($home->safe_psql('landing', q{select count(*), bloom_might_contain_many('username_filter', '{maiden,married}') from users}),
	'0|{t,f}', 'an emptied landing table loses a rename');
$home->safe_psql('landing', 'drop subscription landing');
catch_up();
drain();
is(denied(), '0', 'the outbox has it');

$home->safe_psql('postgres', "drop subscription $_") for @shards;
$home->stop;
$shards->stop;
done_testing();
