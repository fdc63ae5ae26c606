# What docs/recipes.md promises beside traffic, with the page's own SQL: a freed name that is taken again is
# never shown as free, in any order of the steps, after a crash, a restore and a failover. A day that is
# missing from a window is an error. A role that has the page's functions only learns nothing else.
# And what docs/operations.md has one do after a restore leaves no name out.
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/..";
use Crash;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1, has_archiving => 1, extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
$node->append_conf('postgresql.conf', "shared_buffers = 64MB\n");
$node->start;

# The page's SQL. Its users get a number, so that a check knows whether a name's user is still the same.
my $page = slurp_file("$FindBin::RealBin/../../docs/recipes.md");
my $sql = join '', $page =~ /^```sql\n(.*?)^```$/msg;
$node->safe_psql('postgres', $sql);
$node->safe_psql('postgres', 'alter table users add id bigserial');

# A session that stays open.
sub session { return $node->background_psql('postgres', on_error_stop => 0, @_) }

# Runs statements, each in a transaction of its own, and returns what they print.
sub run { return join '|', map { $node->safe_psql('postgres', $_) } @_ }

# A name that has a user, has been freed, and is shown as free.
sub free_name
{
	my ($name) = @_;
	run("select claim_name('$name')", "insert into users values ('$name')", "delete from users where username = '$name'",
		"select release_name('$name')", "select show_freed('0')");
	is(run("select name_may_be_taken('$name')"), 'f', "$name is free");
	return $name;
}

# Whether a check calls the name definitely free.
sub taken { return run("select name_may_be_taken('$_[0]')") }

# ---- Freed names: every order of the steps

free_name('first');
is(run(q{select bloom_might_contain('username_filter', 'first')}), 't', 'the filter itself has its bits');
is(run(q{select name_may_be_taken('FIRST')}), 'f', 'in capitals too');

run(q{select claim_name('First')});
is(taken('first'), 't', 'claimed: maybe, before there is a user');
is(run(q{select show_freed('0')}), '0', 'and it does not come back');
is(taken('first'), 't', 'still maybe');

run(q{insert into users values ('second')}, q{select bloom_add('username_filter', 'second')},
	q{delete from users where username = 'second'}, q{select release_name('second')});
is(run(q{select show_freed('1 hour')}), '0', 'not before the grace period is over');
is(taken('second'), 't', 'a name that waits: maybe');
run(q{select claim_name('second')});
is(run(q{select show_freed('0')}), '0', 'claimed while it waited: it is not shown as free');
is(taken('second'), 't', 'maybe');

# Claimed before it was released, and inserted after that.
run(q{insert into users values ('third')}, q{select bloom_add('username_filter', 'third')},
	q{select claim_name('third')}, q{delete from users where username = 'third'}, q{select release_name('third')},
	q{insert into users values ('third')});
is(run(q{select show_freed('0')}), '0', 'claimed before it was released: it is not shown as free');
is(run(q{select count(*) from freed where key = 'third'}), '0', 'and does not wait any more');
is(taken('third'), 't', 'maybe');

# A late or repeated release of a name that has a new user.
run(q{select release_name('third')}, q{select show_freed('0')});
is(taken('third'), 't', 'a late release does nothing');

# A release of a user whose deletion was rolled back, or of a name that is reserved.
run(q{select bloom_add('username_filter', 'root')}, q{insert into reserved values ('root', 'ours')},
	q{select release_name('root')}, q{select show_freed('0')});
is(taken('root'), 't', 'a reserved name is not shown as free');

# A claim that has not committed, beside the job.
run(q{insert into users values ('fourth')}, q{select bloom_add('username_filter', 'fourth')},
	q{delete from users where username = 'fourth'}, q{select release_name('fourth')});
my $claim = session();
$claim->query_safe(q{begin; select claim_name('fourth')});
my $job = session();
$job->query_until(qr/asked/, "\\echo asked\ncreate table found as select show_freed('0') as names;\n");
$node->poll_query_until('postgres', q{select count(*) = 1 from pg_stat_activity where wait_event_type = 'Lock'})
  or die 'the job does not wait';
$claim->query_safe('commit');
$job->query_safe('select 1');
is(run('select names from found'), '0', 'the job waits for a claim under way, and finds nothing');
is(taken('fourth'), 't', 'maybe');

# Old snapshots: a transaction, a cursor, a query that calls the check again and again.
free_name('fifth');
my $old = session();
$old->query_safe('begin isolation level repeatable read');
is($old->query_safe(q{select count(*) from freed where key = 'fifth' and free}), '1', 'an old snapshot sees it free');
my $cursor = session();
$cursor->query_safe(q{begin; declare c cursor for select name_may_be_taken('fifth') from generate_series(1, 2)});
is($cursor->query_safe('fetch 1 from c'), 'f', 'a cursor, before it is claimed');
run(q{select claim_name('fifth')});
is($cursor->query_safe('fetch 1 from c'), 't', 'and after it');
is($old->query_safe(q{select count(*) from freed where key = 'fifth' and free}), '1', 'the old snapshot still sees it free');
is($old->query_safe(q{select name_may_be_taken('fifth')}), 't', 'and the check says maybe');
$old->query_safe('rollback');
$cursor->query_safe('rollback');
$_->quit for $claim, $job, $old, $cursor;

# A filter that is suspended, and one that was restored from a dump with the table.
free_name('sixth');
run(q{select bloom_suspend('username_filter')});
is(taken('sixth'), 't', 'a suspended filter: maybe');
run(q{select bloom_resume('username_filter')});
is(taken('sixth'), 'f', 'resumed: free');
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
$node->command_ok([ 'pg_dump', '--file', $dump, $node->connstr('postgres') ], 'a dump');
run(q{select claim_name('sixth')});
$node->safe_psql('postgres', 'create database restored');
$node->command_ok([ 'psql', '-Xq', '-f', $dump, $node->connstr('restored') ], 'restored');
is($node->safe_psql('restored', q{select count(*), name_may_be_taken('sixth') from freed where key = 'sixth'
                                  and free group by 2}),
	'1|t', 'the restored table has the row, and the check says maybe');
is($node->safe_psql('restored', q{select string_agg(filter::text, ' ' order by tenant) from tenants}),
	'members_of_1 members_of_2', 'a restored column of filters names them');

# A crash after a claim that does not wait for the disk.
free_name($_) for 'seventh', 'eighth';
run(q{set synchronous_commit = off; select claim_name('seventh')});
kill_server($node);
$node->start;
is(taken('seventh'), 't', 'after a crash: maybe');
is(taken('eighth'), 't', 'of a name that was free, too');
is(run('select count(*) from freed'), '0', 'the table is empty');

# ---- Freed names under traffic: users come and go, and names are asked for all the while

run('delete from users', 'truncate freed', 'create table wrong (name text, at timestamptz default now())',
	'create table shown (names bigint)');
my $folder = PostgreSQL::Test::Utils::tempdir();
my $grace = 2;
my %script = (
	# A sign-up gives up after half a second.
	come => q{\set n random(1, 200)
select extract(epoch from clock_timestamp()) as begun \gset
select claim_name('name' || :n);
insert into users select 'Name' || :n where extract(epoch from clock_timestamp()) < :begun + 0.5
on conflict do nothing;
},
	leave => q{\set n random(1, 200)
with gone as (delete from users where username = 'Name' || :n returning 1) select count(*) as gone from gone \gset
\if :gone
select release_name('name' || :n);
\endif
},
	job => qq{insert into shown select show_freed('$grace s');\n},
	# A user who was there before the check and after it was there all the time.
	check => q{\set n random(1, 200)
select coalesce((select id from users where lower(username) = 'name' || :n), 0) as before \gset
select (name_may_be_taken('NAME' || :n) is not false)::int as maybe \gset
select coalesce((select id from users where lower(username) = 'name' || :n), 0) as after \gset
\if :before <> 0 and :before = :after and :maybe = 0
insert into wrong values ('name' || :n);
\endif
});
append_to_file("$folder/$_.sql", $script{$_}) for keys %script;
my %clients = (come => [ 2, 20 ], leave => [ 1, 20 ], job => [ 1, 5 ], check => [ 2, 1000 ]);
my @running;
for my $what (sort keys %clients)
{
	my ($many, $rate) = @{ $clients{$what} };
	my $output = '';
	push @running, [ $what, \$output, IPC::Run::start(
		[ 'pgbench', '--no-vacuum', '--client', $many, '--rate', $rate, '--time', 14, '--log', '--log-prefix',
			"$folder/$what", '--file', "$folder/$what.sql", $node->connstr('postgres') ],
		'<', \undef, '>', \$output, '2>&1') ];
}
ok(IPC::Run::finish($_->[2]), "$_->[0]: no error") or diag(${ $_->[1] }) for @running;
# With a rate, the last field of the log is how late a run began. The time before it is from that moment on.
my $longest = 0;
for my $file (glob "$folder/come.[0-9]*")
{
	for my $line (split /\n/, slurp_file($file))
	{
		my @field = split / /, $line;
		my $took = ($field[2] - $field[6]) / 1e6;
		$longest = $took if $took > $longest;
	}
}
cmp_ok(run('select sum(names) from shown'), '>', 20, 'names were shown as free');
cmp_ok(run('select max(id) from users'), '>', 100, 'and users came');
SKIP:
{
	skip "a sign-up took $longest s, longer than the grace period", 1 if $longest > $grace;
	is(run('select count(*) from wrong'), '0', 'no name with a user was called free');
}

# ---- A window that slides

# Whether each visitor of the last thirty days is maybe, as seen on a day and by a clock a day behind; and
# what the visitor of the day before the window is.
is(run(q{
do $$
declare
    first date := seen_day();
    today date;
begin
    for today in select first + i from generate_series(0, 40) i loop
        call roll_seen(today);
        perform add_seen('visitor of ' || today, today);
        for day in greatest(0, today - first - 29)..today - first loop
            if not seen_lately('visitor of ' || (first + day), today) then
                raise exception 'on % the visitor of % is denied', today, first + day;
            end if;
        end loop;
        -- The clock is set back.
        if today > first and not seen_lately('visitor of ' || today, today - 1) then
            raise exception 'the visitor of tomorrow is denied';
        end if;
    end loop;
    if seen_lately('visitor of ' || (first + 40 - 30), first + 40) then raise exception 'a visitor does not leave'; end if;
end $$;
select count(*) from bloom_filters where filter::text ~ '^seen_'}), 38, 'the window slides');

my $last = run(q{select seen_day() + 40});
run(qq{do \$\$ begin execute format('drop table %s', seen_filter('$last')); end \$\$});
my ($status, undef, $error) = $node->psql('postgres', qq{select seen_lately('anybody', '$last')});
like($error, qr/relation "seen_\d+" does not exist/, 'a day is missing: an error');
run(qq{call roll_seen('$last')});
($status, undef, $error) = $node->psql('postgres', qq{select seen_lately('anybody', '$last')});
like($error, qr/relation "seen_\d+" does not exist/, 'the job does not make it again');
run(qq{select bloom_create(seen_filter('$last'), 1e5)});
is(run(qq{select seen_lately('anybody', '$last')}), 't', 'made again by hand: all answer maybe');
is(run(q{set timezone = 'Pacific/Kiritimati'; set datestyle = 'SQL, DMY'; select seen_day() = (now() at time zone 'UTC')::date
         and seen_filter('2026-12-03') = 'seen_20261203'}), 't', 'whatever the session\'s time zone and date style');

# ---- What a role without SELECT learns

sub refused
{
	my ($role, $statement, $what) = @_;
	my (undef, undef, $said) = $node->psql('postgres', "set role $role; $statement");
	like($said, qr/permission denied/, $what);
}
refused('web_form', 'select * from username_filter', 'the form cannot read the filter');
refused('web_form', 'copy username_filter to stdout', 'nor copy it');
refused('web_form', q{select bloom_might_contain('username_filter', 'ada')}, 'nor ask it without the function');
refused('web_form', q{select bloom_value('username_filter')}, 'nor take it as a value');
refused('web_form', q{select bloom_info('username_filter')}, 'nor look at its fill');
is(run(q{set role web_form; select count(*) from bloom_filters}), '0', 'nor see it');
run('create role stranger');
refused('stranger', q{select form_may_be_taken('ada')}, 'another role has no function');
is(run(q{
set role web_form;
create function pg_temp.bloom_might_contain(regclass, text) returns boolean language sql return false;
set search_path = pg_temp, public;
select public.form_may_be_taken('Ada')}), 't', 'the search path of the caller changes nothing');

# ---- What to do after a restore

# Users are on another server, which goes on; the filter's server is restored as it was some time ago.
run(q{insert into users values ('early')}, q{select bloom_add('username_filter', 'early')});
$node->backup('base');
# This one is in the archive, and the next ones are not.
run(q{select bloom_add('username_filter', 'between')}, q{insert into users values ('between')});
my $segment = run('select pg_walfile_name(pg_current_wal_lsn())');
run('select pg_switch_wal()');
$node->poll_query_until('postgres', qq{select last_archived_wal >= '$segment' from pg_stat_archiver})
  or die 'the WAL is not archived';
for my $i (1 .. 20)
{
	run(qq{select bloom_add('username_filter', 'late$i')}, qq{insert into users values ('late$i')});
}
my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($node, 'base', has_restoring => 1, standby => 0);
$restored->start;
$restored->poll_query_until('postgres', 'select not pg_is_in_recovery()') or die 'the recovery does not end';
is($restored->safe_psql('postgres', q{select status from bloom_info('username_filter')}),
	'suspended: the server failed over or was restored', 'restored: suspended');
is($restored->safe_psql('postgres', 'select count(*) from freed'), '0', 'no freed names');
# Which names of the other server's users a filter lacks, by its bits: the page's query.
my $all = $node->safe_psql('postgres', q{select string_agg(quote_literal(username), ',') from users});
my $lacks = qq{select count(*) from unnest(array[$all]) u (username), bloom_info_sampled('username_filter', 1) i,
username_filter f where f.chunk = bloom_chunk(u.username, i.chunks) and not f.bits \@> u.username};
cmp_ok($restored->safe_psql('postgres', $lacks), '>=', 20, 'it lacks names');
my $moment = $restored->safe_psql('postgres', 'select pg_last_xact_replay_timestamp()');
my $names = $node->safe_psql('postgres', qq{
select string_agg(quote_literal(username), ',') from users where created_at > timestamptz '$moment' - interval '10 minutes'});
$restored->safe_psql('postgres', qq{
select bloom_add_many('username_filter', array[$names])});
is($restored->safe_psql('postgres', $lacks), '0', 'with the names since the last commit that it has, it lacks none');
$restored->safe_psql('postgres', q{select bloom_resume('username_filter')});
is($restored->safe_psql('postgres', qq{select count(*) from unnest(array[$all]) name
	where not bloom_might_contain('username_filter', name)}), '0', 'no user is denied');
is($restored->safe_psql('postgres', q{select bloom_might_contain('username_filter', 'nobody at all')}), 'f', 'and it answers');

$_->stop for $node, $restored;
done_testing();
