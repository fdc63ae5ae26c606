# Users on four shards behind one filter: the exact answer, names that are unique over all shards,
# what happens when a server is down, and users that move to another shard.
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
my $names = 10_000;

sub value { return $shards->value($_[0]) }
sub sum { my $sum = 0; $sum += $_ for @_; return $sum }

$shards->value(qq{
insert into users select i, 'User' || i from generate_series(1, $names) i;
insert into usernames select lower(username), id from users;
select bloom_create('username_filter', 1e5, source => 'select username from users');
-- Bits without a user: a check answers maybe, and the shards know better.
select bloom_add('username_filter', 'Ghost');
});
is_deeply([ grep { $_ < 2000 } $shards->on_shards('select count(*) from users') ], [],
	'every shard has its part of the users');

# ---- The exact answer

value(q{
create function is_taken(name text) returns boolean language plpgsql stable strict as $$
declare
	key text := lower(name);
begin
	if bloom_might_contain('username_filter', name) = false then
		return false;
	end if;
	return exists (select 1 from users where lower(username) = key);
end $$;
-- The same, but for the condition, which cannot be sent to a shard.
create function is_taken_slow(name text) returns boolean language plpgsql stable strict as $$
begin
	if bloom_might_contain('username_filter', name) = false then
		return false;
	end if;
	return exists (select 1 from users where lower(username) = lower(name));
end $$;
-- usernames is partitioned by the name: one shard is asked.
create function is_taken_by_key(name text) returns boolean language plpgsql stable strict as $$
declare
	taken_key text := lower(name);
begin
	if bloom_might_contain('username_filter', name) = false then
		return false;
	end if;
	return exists (select 1 from usernames where key = taken_key);
end $$;
});
is(value(q{select is_taken('user17'), is_taken('USER17'), is_taken('nobody'), is_taken('ghost'),
	is_taken(null) is null}), 't|t|f|f|t', 'the exact answer');
is(value(q{select is_taken_by_key('USER17'), is_taken_by_key('nobody'), is_taken_by_key('ghost')}),
	't|f|f', 'also by the key');

# What the shards are asked while the filter server runs some SQL in a session of its own: the
# statements as their logs have them, and how many rows they returned.
sub asked_of_shards
{
	my ($sql) = @_;
	my @servers = @{ $shards->{servers} };
	my @ends = map { -s $_->logfile } @servers;
	$_->safe_psql('postgres', 'select pg_stat_statements_reset()') for @servers;
	value($sql);
	my $log = join '', map { slurp_file($servers[$_]->logfile, $ends[$_]) } 0 .. $#servers;
	my $rows = sum(map { $_->safe_psql('postgres', q{
select coalesce(sum(rows), 0) from pg_stat_statements where query ilike 'fetch%'}) } @servers);
	return {
		transactions => scalar(() = $log =~ /START TRANSACTION/g),
		conditions => [ $log =~ /DECLARE c\d+ CURSOR FOR\s+SELECT [^\n]+ FROM public\.user\w+([^\n]*)/g ],
		rows => $rows
	};
}

for my $server (@{ $shards->{servers} })
{
	$server->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_stat_statements'");
	$server->restart;
	$server->safe_psql('postgres', 'create extension pg_stat_statements');
	$server->safe_psql('postgres', "alter database $_ set log_statement = 'all'")
	  for split /\n/,
	  $server->safe_psql('postgres', q{select datname from pg_database where datname ~ '^shard'});
}

my $by_parameter = ' WHERE ((lower(username) = $1::text))';
my $generic = q{set plan_cache_mode = force_generic_plan; };
my $asked = asked_of_shards($generic . q{select is_taken('user17')});
is_deeply($asked->{conditions}, [ ($by_parameter) x 4 ], 'a generic plan sends the condition');
is($asked->{rows}, 1, 'and fetches the one match');
$asked = asked_of_shards($generic . q{select is_taken('ghost')});
is_deeply($asked->{conditions}, [ ($by_parameter) x 4 ], 'for a false maybe too');
is($asked->{rows}, 0, 'which fetches nothing');

# The first five calls have plans of their own, with a constant.
my $many = q{select count(*) from generate_series(1, 8) i where is_taken(left('ghost', 5 + i))};
$asked = asked_of_shards($many);
is_deeply([ @{ $asked->{conditions} }[ -4 .. -1 ] ], [ ($by_parameter) x 4 ],
	'the plan is generic after some calls, and sends the condition');
is(scalar(grep { $_ eq q{ WHERE ((lower(username) = 'ghost'::text))} } @{ $asked->{conditions} }),
	20, 'the first five plans send it with a constant');
is($asked->{rows}, 0, 'none of the eight fetches a name');

# How it is if the condition calls lower() of the argument.
$asked = asked_of_shards($generic . q{select is_taken_slow('ghost')});
is_deeply($asked->{conditions}, [ ('') x 4 ], 'lower(username) = lower(name) is not sent');
is($asked->{rows}, $names, 'every name of every shard is fetched');
$asked = asked_of_shards($many =~ s/is_taken/is_taken_slow/r);
is($asked->{rows}, 3 * $names, 'from the sixth maybe of a session on');

# Other conditions, as a prepared statement has them. Collations: the column's own, which is the
# default, is sent. Another one on either side is not.
for my $condition (
	[ 'lower(username) = $1', $by_parameter ],
	[ 'lower(username) = $1::varchar', $by_parameter ],
	[ 'lower(username) = $1 collate "C"', '' ],
	[ 'lower(username collate "C") = $1', '' ],
	[ 'lower(username) = lower($1)', '' ])
{
	my ($local, $remote) = @$condition;
	my $plan = value(qq{$generic prepare taken(text) as select exists (select 1 from users where $local);
explain (verbose, costs off) execute taken('ghost')});
	my @sent = $plan =~ /Remote SQL: SELECT [^\n]+ FROM public\.users([^\n]*)/g;
	is_deeply(\@sent, [ ($remote) x 4 ], "$local: " . ($remote ? 'sent' : 'not sent'));
}

# usernames: the one shard that the key belongs to.
for my $name ('user17', 'ghost')
{
	$asked = asked_of_shards("$generic select is_taken_by_key('$name')");
	is($asked->{transactions}, 1, "$name: one shard is asked by the key");
	is_deeply($asked->{conditions}, [' WHERE ((key = $1::text))'], 'with the condition');
}

# One statement with "and" opens a transaction on every shard, although no shard is asked.
my $with_and = q{select bloom_might_contain('username_filter', 'nobody')
	and exists (select 1 from users where lower(username) = 'nobody')};
$asked = asked_of_shards($with_and);
is($asked->{transactions}, 4, 'one statement with "and" opens four transactions for a free name');
is(scalar @{ $asked->{conditions} }, 0, 'and asks nothing in them');
$asked = asked_of_shards(q{select is_taken('nobody')});
is($asked->{transactions}, 0, 'the function opens none');

# What an audit sends: the filter is here, so the names travel.
$asked = asked_of_shards(q{select count(*) from users where not bloom_might_contain('username_filter', username)});
is_deeply($asked->{conditions}, [ ('') x 4 ], 'the audit checks here, not on the shards');
is($asked->{rows}, $names, 'and sees every name');

for my $i (0 .. 3)
{
	$shards->server_of($i)->safe_psql('postgres', "alter database shard_$i reset log_statement");
}

# ---- Names that are unique over all shards

value(q{
-- Whether the name is the caller's now. The primary key on the shard of the name decides.
create function take_name(name text, id bigint) returns boolean language plpgsql as $$
begin
	insert into usernames values (lower(name), id);
	return true;
exception when unique_violation then
	return false;
end $$;
-- Clients meet here before each round, so that they sign up at the same time. A sequence, since
-- what it says is seen before the commit.
create sequence arrivals;
create function meet(round int, clients int) returns void language plpgsql as $$
begin
	perform nextval('arrivals');
	while (select last_value from arrivals) < round * clients loop
		perform pg_sleep(0.0002);
	end loop;
end $$;
});

# Runs a script with pgbench on the filter server, and returns the run.
my $scripts = 0;
my %client_errors;
sub start_clients
{
	my ($clients, $transactions, $script, @options) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/script' . $scripts++;
	append_to_file($file, $script);
	my $run = { out => '', err => '' };
	$run->{handle} = IPC::Run::start(
		[ 'pgbench', '-n', '-c', $clients, '-j', 2, '-t', $transactions, '-D', 'n=0', @options,
			'-f', $file, $filter->connstr('postgres') ],
		'>', \$run->{out}, '2>', \$run->{err});
	return $run;
}

# Has four clients sign up for the same names, one in each round.
sub race
{
	my ($rounds, $script) = @_;
	value('alter sequence arrivals restart');
	my $run = start_clients(4, $rounds, '\set n :n + 1' . "\nselect meet(:n, 4);\n$script");
	ok($run->{handle}->finish, "$rounds rounds of four clients") or diag($run->{err});
	return;
}

my $double = q{select count(*) from (select from users group by lower(username) having count(*) > 1) names};
# Half of the clients write the name in another case.
my $name = q{case :client_id % 2 when 0 then 'race' else 'Race' end || :n};
race(1000, qq{
select bloom_add('username_filter', $name);
select take_name($name, 1000000 + :n * 10 + :client_id) as won \\gset
\\if :won
insert into users values (1000000 + :n * 10 + :client_id, $name);
\\endif
});
is(value($double), '0', 'no name is there twice');
is(value(q{select count(*), count(distinct lower(username)) from users where username ilike 'race%'}),
	'1000|1000', 'each has one winner');
is(value(q{select count(*) from usernames join users on key = lower(username) and user_id = id
	where key like 'race%'}), '1000', 'the one that has the key');
cmp_ok(value(q{select count(distinct id % 10) from users where username ilike 'race%'}), '>=', 2,
	'it was a race: several clients won');
is($shards->denied, '0', 'nobody is denied');

# How it is if the shards are only looked at before the insert.
race(100, q{
select bloom_add('username_filter', 'look' || :n);
select not exists (select 1 from users where lower(username) = 'look' || :n) as free \gset
\if :free
insert into users values (2000000 + :n * 10 + :client_id, 'look' || :n);
\endif
});
cmp_ok(value($double), '>', 0, 'to look and then insert gives double names');
value(q{delete from users where id >= 2000000});

# "On conflict do nothing" is not what it is on one server: postgres_fdw asks under repeatable read.
my $first = $filter->background_psql('postgres', on_error_stop => 0);
my $second = $filter->background_psql('postgres', on_error_stop => 0);
$second->query_safe(q{begin; select count(*) from usernames});
$first->query_safe(q{insert into usernames values ('conflict', 3000001)});
$second->query(q{insert into usernames values ('conflict', 3000002) on conflict do nothing});
like($second->{stderr}, qr/could not serialize access/,
	'"on conflict do nothing" fails in a race, with 40001 instead of no row');
$second->{stderr} = '';
$second->query_safe('rollback');
$_->quit for $first, $second;
like($shards->error_of(q{insert into usernames values ('conflict', 3000002)}),
	qr/ERROR:  23505: duplicate key/, 'a plain insert fails with 23505');
value(q{delete from usernames where key = 'conflict'});

# ---- A crash amid sign-ups

my $base = 4_000_000;
# A sign-up in the right order, each step a transaction of its own.
sub sign_ups
{
	my ($round, $each) = @_;
	my $from = $base + $round * 100_000;
	return start_clients(8, $each, qq{
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
is(value($double), '0', 'no name is there twice');
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
my %id_of;
for my $shard (0, 3)
{
	$id_of{$shard} = value(qq{select id from generate_series(5000010, 5001000::bigint) id
		where satisfies_hash_partition('users'::regclass, 4, $shard, id) limit 1});
}
for my $shard (0, 3)
{
	my $other = 3 - $shard;
	like($shards->error_of(qq{begin; select bloom_add_many('username_filter', '{together$shard, refused}');
insert into users values ($id_of{$shard}, 'together$shard'), ($id_of{$other}, 'refused'); commit}),
		qr/refused at commit/, 'one of two shards does not commit');
}
is($shards->denied, '1', 'add and insert in one transaction: a user is there whom the filter denies');
value(q{delete from users where username ~ '^together'});
is($shards->denied, '0', 'nobody else is denied');

# ---- The filter server is down

# The application's check: no answer, an error and null mean maybe.
sub may_be_taken
{
	my ($name) = @_;
	my ($status, $answer) =
	  $filter->psql('postgres', "select bloom_might_contain('username_filter', '$name')");
	return $status != 0 || $answer ne 'f';
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
my ($status) = $filter->psql('postgres', q{select bloom_add('username_filter', 'too late')});
isnt($status, 0, 'an add fails, and the sign-up is refused');
$filter->start;

# ---- A server of shards is down

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
-- With a filter a shard, only the shards whose filter answers maybe are asked.
create function is_taken_by_shard(name text) returns boolean language plpgsql stable strict as $$
declare
	key text := lower(name);
	found_it boolean;
begin
	for shard in 0 .. 3 loop
		if bloom_might_contain(format('users_%s_filter', shard)::regclass, name) then
			execute format('select exists (select 1 from users_%s where lower(username) = $1)', shard)
				into found_it using key;
			if found_it then
				return true;
			end if;
		end if;
	end loop;
	return false;
end $$;
select bloom_create(format('users_%s_filter', shard), 1e5, 0.0001, source => format('select username from users_%s', shard))
from generate_series(0, 3) shard;
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
cmp_ok($here, '>', 30, 'which are many');
like($shards->error_of($with_and), qr/ERROR:  08001: could not connect to server "shard_[23]"/,
	'one statement with "and" fails for a free name');
is(value(q{select bloom_add('username_filter', 'While down')}), 't', 'adds work');
like($shards->error_of(q{insert into usernames select 'down' || i, i from generate_series(1, 20) i}),
	qr/ERROR:  08001:/, 'sign-ups whose key is on the dead server fail');
$down->start;
is(outcomes('is_taken'), "f|false|99\nt|true|100", 'it is up again');

# ---- A shard that is lost during a rebuild, or that returns fewer rows

# The bits, and when they were made.
sub bits { return value(q{select md5(string_agg(bits::text, '' order by chunk)) from username_filter})
	  . value(q{select built_at from bloom_info('username_filter')}) }

my $bits = bits();
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
is($shards->denied, '0', 'nobody is denied');
$_->quit for $holder, $rebuild;

my $hide = q{alter table users rename to hidden; create view users as select * from hidden where false};
my $show = q{drop view users; alter table hidden rename to users};
$bits = bits();
$shards->on_shard(2, $hide);
my $error = $shards->error_of(q{call bloom_rebuild('username_filter', 'select username from users', grace => '0')});
like($error, qr/ERROR:  55000: /, 'a shard that returns no rows: the rebuild is refused');
like($error, qr/min_share/, 'by min_share');
is(bits(), $bits, 'nothing is swapped');
is($shards->denied, '0', 'nobody is denied');
# How it is if min_share lets it pass.
value(q{call bloom_rebuild('username_filter', 'select username from users', grace => '0', min_share => 0.5)});
$shards->on_shard(2, $show);
is($shards->denied, $shards->on_shard(2, 'select count(*) from users'),
	'with a lower min_share the names of that shard are denied');
value(q{call bloom_rebuild('username_filter', 'select username from users', grace => '0', min_share => 0.5)});
is($shards->denied, '0', 'the next rebuild has them');

# ---- Users that move, with a filter a shard

# Which filters answer maybe for a name.
sub maybe
{
	my ($name) = @_;
	return value(qq{select string_agg(shard::text, ',' order by shard) from generate_series(0, 3) shard
		where bloom_might_contain(format('users_%s_filter', shard)::regclass, '$name')});
}

# A user of shard 0, and an ID that belongs to shard 3.
sub mover
{
	my ($name) = @_;
	my ($old, $new) = map { value(qq{select id from generate_series(6000000, 6001000::bigint) id
		where satisfies_hash_partition('users'::regclass, 4, $_, id) and id not in (select id from users) limit 1}) } 0, 3;
	value(qq{select bloom_add('users_0_filter', '$name')});
	value(qq{insert into users values ($old, '$name')});
	is(maybe($name), '0', "$name lives on shard 0");
	return ($old, $new);
}

my ($old, $new) = mover('mover');
value(q{select bloom_add('users_3_filter', 'mover')});
is(maybe('mover'), '0,3', 'first the filter of the target has the name');
value("insert into users values ($new, 'mover')");
value("delete from users where id = $old");
is(value(q{select is_taken_by_shard('mover')}), 't', 'the user is found after the move');
is($shards->denied("users_${_}_filter", "users_$_"), '0', "shard $_: nobody is denied") for 0 .. 3;
is(maybe('mover'), '0,3', 'the source keeps the bits, which cost one query too many');
value(q{call bloom_rebuild('users_0_filter', 'select username from users_0', grace => '0')});
is(maybe('mover'), '3', 'until its filter is rebuilt');
is($shards->denied("users_${_}_filter", "users_$_"), '0', "shard $_: nobody is denied") for 0, 3;

# How it is if the target's filter comes last.
($old, $new) = mover('hasty');
value("insert into users values ($new, 'hasty')");
value("delete from users where id = $old");
is(value(q{select is_taken_by_shard('hasty')}), 'f', 'without the add a taken name is called free');
is($shards->denied('users_3_filter', 'users_3'), '1', 'which the audit of the shard finds');
value(q{select bloom_add('users_3_filter', 'hasty')});
is(value(q{select is_taken_by_shard('hasty')}), 't', 'until the add');

# ---- Locales

# What lower() makes of a name is the shard's business in lower(username), and the filter server's
# in the key. They must agree.
SKIP:
{
	my ($failed) = $down->psql('postgres', q{create database "utf-8" template template0 locale 'C.UTF-8'});
	skip 'no locale C.UTF-8', 1 if $failed;
	skip 'C.UTF-8 lowers ASCII only', 1
	  if $down->safe_psql('utf-8', q{select lower(U&'\00dc') = U&'\00dc'}) eq 't';
	is( $down->safe_psql('utf-8', q{
create table users as select U&'M\00dcLLER' as username;
select count(*) from users where lower(username) = lower(U&'M\00dcLLER')})
		  . $down->safe_psql('utf-8', q{select count(*) from users where lower(username) = lower(U&'M\00dcLLER' collate "C")}),
		'10', 'a key that was lowered by another locale does not match');
}

$shards->stop;
done_testing();
