# Users on four shards behind one filter: the exact answer, names that are unique over all shards,
# and users that move to another shard.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/..";
use Shards;

my $names = 10_000;
my $shards = Shards->new;
my $filter = $shards->{filter};
$shards->load($names);

sub value { return $shards->value($_[0]) }
sub sum { my $sum = 0; $sum += $_ for @_; return $sum }

is_deeply([ grep { $_ < 2000 } $shards->on_shards('select count(*) from users') ], [],
	'every shard has its part of the users');

# ---- The exact answer

value(q{
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
# PostgreSQL 15 and 16 expect a row to cost little, and take the generic plan for that; later ones
# only with this option.
value("alter server shard_$_ options (add fdw_tuple_cost '0.01')") for 0 .. 3;
$asked = asked_of_shards($many =~ s/is_taken/is_taken_slow/r);
is($asked->{rows}, 3 * $names, 'from the sixth maybe of a session on');
value("alter server shard_$_ options (drop fdw_tuple_cost)") for 0 .. 3;

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

# Has four clients sign up for the same names, one in each round.
sub race
{
	my ($rounds, $script) = @_;
	value('alter sequence arrivals restart');
	my $run = $shards->start_clients(4, $rounds, '\set n :n + 1' . "\nselect meet(:n, 4);\n$script");
	ok($run->{handle}->finish, "$rounds rounds of four clients") or diag($run->{err});
	return;
}

# Half of the clients write the name in another case.
my $name = q{case :client_id % 2 when 0 then 'race' else 'Race' end || :n};
race(1000, qq{
select bloom_add('username_filter', $name);
select take_name($name, 1000000 + :n * 10 + :client_id) as won \\gset
\\if :won
insert into users values (1000000 + :n * 10 + :client_id, $name);
\\endif
});
is($shards->doubles, '0', 'no name is there twice');
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
cmp_ok($shards->doubles, '>', 0, 'to look and then insert gives double names');
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

# ---- Users that move, with a filter a shard

$shards->load_filter_a_shard;

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

# An update of the key is no move: the row stays where it is, and is looked for elsewhere.
($old, $new) = mover('stays');
value("update users set id = $new where id = $old");
is($shards->on_shard(0, "select count(*) from users where id = $new"), '1',
	'a row whose ID is updated stays on its shard');
is(value("select count(*) from users where id = $new"), '0', 'where nobody finds it by its ID');
is(value(q{select is_taken_by_shard('stays')}), 't', 'but by its name');
$shards->on_shard(0, "delete from users where id = $new");

# ---- Locales

# lower(username) is made by the shard, and the key by the filter server: of names beyond ASCII they
# make the same only if both databases have the same locale.
SKIP:
{
	my $server = $shards->{servers}[0];
	my ($failed) = $server->psql('postgres',
		q{create database other_locale template template0 locale 'C.UTF-8'});
	skip 'no locale C.UTF-8', 1 if $failed;
	my $key = $server->safe_psql('other_locale', q{select lower(U&'M\00dcLLER')});
	skip 'C.UTF-8 lowers ASCII only', 1 if $key eq value(q{select lower(U&'M\00dcLLER')});
	$server->safe_psql('other_locale', q{create table users as select U&'M\00dcLLER' as username});
	is($server->safe_psql('other_locale', qq{
select count(*) from users where lower(username) = '$key';
select count(*) from users where lower(username) = '} . value(q{select lower(U&'M\00dcLLER')}) . q{'}),
		"1\n0", 'a key that was lowered under another locale is not found');
}

$shards->stop;
done_testing();
