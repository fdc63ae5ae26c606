# Users on four shards of two servers, behind one filter, while something crashes, is down or hides
# rows: nobody is told that a taken name is free.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/..";
use Crash;
use Shards;

my $shards = Shards->new;
my $filter = $shards->{filter};
$shards->load(10_000);

sub value { return $shards->value($_[0]) }
sub sum { my $sum = 0; $sum += $_ for @_; return $sum }

# ---- A crash amid sign-ups

my $base = 4_000_000;
# A sign-up in the right order, each step a transaction of its own.
sub sign_ups
{
	my ($round, $each) = @_;
	my $from = $base + $round * 100_000;
	return $shards->start_clients(8, $each, qq{
\\set n :n + 1
\\set id $from + :client_id * 10000 + :n
select bloom_add('username_filter', 'Crash' || :id);
insert into usernames values ('crash' || :id, :id);
insert into users values (:id, 'Crash' || :id);
}, '-M', 'prepared');
}

# Users whose sign-up is complete, counted where they are.
sub signed_up
{
	return sum($shards->on_shards("select count(*) from users where id >= $base"));
}

# Waits until the shards are done with what the dead server has asked of them.
sub shards_are_idle
{
	for my $server (@{ $shards->{servers} })
	{
		$server->poll_query_until('postgres',
			q{select count(*) = 0 from pg_stat_activity where application_name = 'postgres_fdw'})
		  or die 'the shards are still asked';
	}
	return;
}

my @crashes = (\&kill_server, sub { $_[0]->stop('immediate') });
my $round = 0;
while ((my $done = signed_up()) < 10_000)
{
	my $run = sign_ups($round, int((10_000 - $done + 7) / 8));
	my $crash = $crashes[ $round++ ];
	if ($crash)
	{
		my $timeout = IPC::Run::timer($PostgreSQL::Test::Utils::timeout_default);
		$timeout->start;
		while (signed_up() < $done + 3000 && !$timeout->is_expired) { $run->{handle}->pump_nb }
		$crash->($filter);
		ok(!$run->{handle}->finish, 'the filter server crashes among the sign-ups');
		shards_are_idle();
		$filter->start;
	}
	else
	{
		ok($run->{handle}->finish, 'the other sign-ups of 10,000') or diag($run->{err});
	}
	is($shards->denied, '0', 'no user is denied whose insert was reached');
}
cmp_ok($round, '>', 2, 'it crashed twice');
is($shards->doubles, '0', 'no name is there twice');
my $unfinished = value(qq{select count(*) from usernames where user_id >= $base
	and not exists (select 1 from users where id = user_id)});
cmp_ok($unfinished, '<=', 16, "keys without a user: $unfinished, at most one of each client");

# The orders, with a crash between their steps.
value(q{select bloom_add('username_filter', 'Right order')});
kill_server($filter);
$filter->start;
is(value(q{select bloom_might_contain('username_filter', 'right order'), is_taken('right order')}),
	't|f', 'after the add: bits without a user');
value(q{insert into users values (5000001, 'Wrong order')});
kill_server($filter);
$filter->start;
is(value(q{select bloom_might_contain('username_filter', 'wrong order')}), 'f',
	'insert first, and a crash before the add: a taken name is called free');
is($shards->denied, '1', 'which the audit finds');
value(q{select bloom_add('username_filter', 'Wrong order')});

# Add and inserts in one transaction: the shards commit first, one after the other. Whichever is
# second refuses to commit, and what the first has committed stays.
$shards->on_shard($_, q{
create function refuse() returns trigger language plpgsql as $$
begin raise exception 'refused at commit'; end $$;
create constraint trigger refuse after insert on users deferrable initially deferred
	for each row when (new.username ~ '^refused') execute function refuse();
}) for 0, 3;
my $id = 5_000_010;

# An ID that nobody has, and that belongs to a shard.
sub id_of
{
	my ($shard) = @_;
	$id = 1 + value(qq{select id from generate_series($id, $id + 1000::bigint) id
		where satisfies_hash_partition('users'::regclass, 4, $shard, id) limit 1});
	return $id - 1;
}

# Which of two shards comes first is not said. So each has the user once, and each is asked first once.
for my $turn ([ 0, 0 ], [ 0, 1 ], [ 3, 0 ], [ 3, 1 ])
{
	my ($shard, $user_first) = @$turn;
	my $name = "together_${shard}_$user_first";
	my @rows = (
		sprintf("(%s, '$name')", id_of($shard)),
		sprintf("(%s, 'refused')", id_of(3 - $shard)));
	@rows = reverse @rows unless $user_first;
	like($shards->error_of(qq{begin; select bloom_add('username_filter', '$name');
insert into users values $rows[0], $rows[1]; commit}),
		qr/refused at commit/, 'one of two shards does not commit');
}
cmp_ok($shards->denied, '>=', 1,
	'add and insert in one transaction: a user is there whom the filter denies');
value(q{delete from users where username ~ '^together'});
is($shards->denied, '0', 'nobody else is denied');

# ---- The filter server is down

# What a statement returns on the filter server; undef where it fails. Not on the standard input of psql,
# which may have ended by then.
sub answer
{
	my ($sql) = @_;
	my ($output) = run_command([ 'psql', '-XAtq', '-d', $filter->connstr('postgres'), '-c', $sql ]);
	return $? == 0 ? $output : undef;
}

# The application's check: no answer, an error and null mean maybe.
sub may_be_taken
{
	my ($name) = @_;
	return (answer("select bloom_might_contain('username_filter', '$name')") // '') ne 'f';
}

# The recipe: after a maybe the application asks the shards itself.
sub taken_or_free
{
	my ($name) = @_;
	return 'free' unless may_be_taken($name);
	return (grep { $_ eq 't' } $shards->on_shards(
		"select exists (select 1 from users where lower(username) = lower('$name'))")) ? 'taken' : 'free';
}

my @some = qw(User1 user2 USER3 user4 nobody1 nobody2);
my $expected = 'taken taken taken taken free free';
is(join(' ', map { taken_or_free($_) } @some), $expected, 'the recipe, while the filter server is up');
$filter->stop;
is(join(' ', map { taken_or_free($_) } @some), $expected, 'while it is down, the shards answer');
is(answer(q{select bloom_add('username_filter', 'too late')}), undef, 'an add fails, and the sign-up is refused');
$filter->start;

# ---- A server of shards is down

$shards->load_filter_a_shard;
value(q{
-- The exact answer of a function for a name, or the SQLSTATE of its error.
create function outcome(taken regproc, name text) returns text language plpgsql as $$
declare
	answer boolean;
begin
	execute format('select %s($1)', taken) into answer using name;
	return answer;
exception when others then
	return sqlstate;
end $$;
create table asked as
select 'user' || i as name, true as taken from generate_series(1, 100) i
union all
(select name, false from (select 'nobody' || i as name from generate_series(1, 1000) i) names
where not bloom_might_contain('username_filter', name)
	and not exists (select from generate_series(0, 3) shard
		where bloom_might_contain(format('users_%s_filter', shard)::regclass, name)) limit 99);
});

# How many names a function gives which answer, in the order of both.
sub outcomes
{
	my ($function) = @_;
	return value(qq{select taken, outcome('$function', name), count(*) from asked group by 1, 2 order by 1, 2});
}

is(outcomes('is_taken'), "f|false|99\nt|true|100", 'all servers are up');
is(outcomes('is_taken_by_shard'), "f|false|99\nt|true|100", 'with a filter a shard too');
my $open = $filter->background_psql('postgres', on_error_stop => 0);
is($open->query_safe(q{select is_taken('user17')}), 't', 'a session that is connected to the shards');
my $here = value(q{select count(*) from asked where taken and exists (
	select from users where lower(username) = name and (tableoid = 'users_0'::regclass or tableoid = 'users_1'::regclass))});
my $down = $shards->{servers}[1];
$down->stop('immediate');

is($open->query(q{select is_taken('nobody')}), 'f', 'an open session: a definite no is answered');
is($open->query(q{select is_taken('user17')}), '', 'a maybe is not');
like($open->{stderr}, qr/ERROR:  .*(shard_[23]|server closed|terminat)/s, 'but has an error');
$open->quit;
is(value(q{select is_taken('nobody'); select count(*) from postgres_fdw_get_connections()}), "f\n0",
	'a definite no connects to no shard');
is(outcomes('is_taken'), "f|false|99\nt|08001|100",
	'one filter: every definite no is answered, every maybe gets the error, none is free');
is(outcomes('is_taken_by_shard'), "f|false|99\nt|08001|" . (100 - $here) . "\nt|true|$here",
	'a filter a shard: the names of the other server are answered too');
cmp_ok($here, '>', 30, "which are $here of 100");
like($shards->error_of(q{select bloom_might_contain('username_filter', 'nobody')
	and exists (select 1 from users where lower(username) = 'nobody')}), qr/ERROR:  08001: could not connect to server "shard_[23]"/,
	'one statement with "and" fails for a free name');
is(value(q{select bloom_add('username_filter', 'While down')}), 't', 'adds work');
like($shards->error_of(q{insert into usernames select 'down' || i, i from generate_series(1, 20) i}),
	qr/ERROR:  08001:/, 'sign-ups whose key is on the dead server fail');
$down->start;
is(outcomes('is_taken'), "f|false|99\nt|true|100", 'it is up again');

# ---- A shard that is lost during a rebuild, or that returns fewer rows

my $state = q{select built_at, (select md5(string_agg(bits::text, '' order by chunk)) from username_filter)
	from bloom_info('username_filter')};
my $built_at = q{select built_at from bloom_info('username_filter')};
my $built_before = value($built_at);
my $holder = $filter->background_psql('postgres');
$holder->query_safe('select pg_advisory_lock(1)');
my $rebuild = $filter->background_psql('postgres', on_error_stop => 0);
# The source waits once it has opened its transactions on the shards.
$rebuild->query_until(qr/sent/, q{\echo sent
call bloom_rebuild('username_filter', $$select username from users
	where (select pg_advisory_xact_lock_shared(1)) is not null$$, grace => '0');
\echo over
});
$down->poll_query_until('postgres', q{select count(*) = 2 from pg_stat_activity
	where application_name = 'postgres_fdw' and state = 'idle in transaction'})
  or die 'the source does not ask the shards';
is(value(q{select status from bloom_filters where filter = 'username_filter'::regclass}),
	'rebuilding: reading the source', 'a rebuild reads the shards');
value(q{select bloom_add('username_filter', 'While rebuilding')});
$down->stop('immediate');
$holder->query_safe('select pg_advisory_unlock(1)');
$rebuild->query_until(qr/over/, '');
like($rebuild->{stderr}, qr/ERROR:  /, 'a shard is lost: the rebuild fails');
$down->start;
is(value(q{select status from bloom_filters where filter = 'username_filter'::regclass}),
	'rebuild broken off', 'so says the status');
is(value(q{select bloom_might_contain_many('username_filter', '{user17, while rebuilding, nobody}')}),
	'{t,t,f}', 'the old filter serves, with what was added meanwhile');
is(value($built_at), $built_before, 'it was not swapped');
is($shards->denied, '0', 'nobody is denied');
$_->quit for $holder, $rebuild;

# Puts a view in the place of a shard's table, which shows only rows for which the condition holds.
sub hide
{
	my ($condition) = @_;
	$shards->on_shard(2, "alter table users rename to hidden;
		create view users as select * from hidden where $condition");
	return;
}

sub show
{
	$shards->on_shard(2, 'drop view users; alter table hidden rename to users');
	return;
}

my $rebuild_with = sub { qq{call bloom_rebuild('username_filter', 'select username from users', grace => '0'$_[0])} };
my $before = value($state);
hide('false');
my $error = $shards->error_of($rebuild_with->(''));
like($error, qr/ERROR:  55000: /, 'a shard that returns no rows: the rebuild is refused');
like($error, qr/min_share/, 'by min_share');
is(value($state), $before, 'nothing is swapped');
is($shards->denied, '0', 'nobody is denied');
# How it is if min_share lets it pass.
value($rebuild_with->(', min_share => 0.5'));
show();
is($shards->denied, $shards->on_shard(2, 'select count(*) from users'),
	'with a lower min_share the names of that shard are denied');
value($rebuild_with->(''));
is($shards->denied, '0', 'the next rebuild has them');
# A share sees a lost shard. It does not see a few lost rows.
hide('id % 50 <> 0');
value($rebuild_with->(''));
show();
is($shards->denied, $shards->on_shard(2, 'select count(*) from users where id % 50 = 0'),
	'rows that are fewer than a share of 0.03 are lost in silence, and only an audit finds them');
value($rebuild_with->(''));
is($shards->denied, '0', 'the next rebuild has them');

$shards->stop;
done_testing();
