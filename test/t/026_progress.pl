# What other sessions see of long commands in bloom_progress: each phase while it runs, and nothing
# after the end, an error, a cancel or the end of the session. Who sees what. The notices.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1, extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
$node->append_conf('postgresql.conf', "fsync = off\nmaintenance_work_mem = '128MB'\n");
$node->start;
$node->safe_psql('postgres', q{
create extension bloomfilter;
create role owner login;
create role stranger login;
create role colleague login in role owner;
create role monitor login in role pg_monitor;
grant create on schema public to owner;
-- Who adds a name but does not commit keeps a merge from its chunk.
set role owner;
select bloom_create('merged', 10000, ready => true, chunks => 1000);
select bloom_create('f', 1e5, source => $$select 'user' || i from generate_series(1, 3000) i$$);
grant select, insert on merged, f to public;
reset role;
create table by_hand (chunk int primary key, bits bit(8192) not null);
insert into by_hand select i, repeat('1', 100)::bit(8192) from generate_series(0, 39999) i;
analyze by_hand;
-- Looks every two milliseconds at what runs, until it is over, and returns what it saw: the command,
-- the phase, and whether chunks were seen between the first and the last.
create function watch() returns setof text language plpgsql as $$
declare
    seen text[] := '{}';
    again text[];
    gone int := 0;
begin
    for i in 1 .. 20000 loop
        perform pg_stat_clear_snapshot();
        select array_agg(command || ': ' || phase
                         || case when chunks_done > 0 and chunks_done < chunks_total then ' in the midst' else '' end)
        into again from bloom_progress;
        gone := case when again is null and seen <> '{}' then gone + 1 else 0 end;
        exit when gone > 100;
        seen := seen || again;
        perform pg_sleep(0.002);
    end loop;
    return query select distinct s from unnest(seen) s;
end $$;
create database other;
});
$node->safe_psql('other', 'create extension bloomfilter');

sub session
{
	my (@arguments) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0, extra_params => \@arguments);
	$session->query_safe('select 1');
	return $session;
}

my $holder = session();
my $pid_of_holder = $holder->query_safe('select pg_backend_pid()');
my ($worker, $pid);

sub new_worker
{
	$worker = session('--username=owner');
	$pid = $worker->query_safe('select pg_backend_pid()');
	return;
}
new_worker();

# Starts a statement in the worker.
my $said;
sub start
{
	my ($sql) = @_;
	$worker->{stderr} = '';
	# A quick one may be over already.
	$said = $worker->query_until(qr/sent/, "\\echo sent\n$sql;\n\\echo over\n");
	return;
}

# Waits until the statement is over and returns what it told.
sub finish
{
	$worker->query_until(qr/over/, '') unless $said =~ /over/;
	my $told = $worker->{stderr};
	$worker->{stderr} = '';
	return $told;
}

# Waits until the worker's row meets the condition, or until there is no row.
sub shows
{
	my ($condition, $name) = @_;
	ok($node->poll_query_until('postgres', "select $condition from bloom_progress where pid = $pid"), $name)
	  or diag($node->safe_psql('postgres', 'table bloom_progress'));
	return;
}
sub is_gone
{
	my ($name) = @_;
	is($node->safe_psql('postgres', "select count(*) from bloom_progress where pid = $pid"), '0', $name);
	return;
}

sub hold { $holder->query_safe('select pg_advisory_lock(1)'); return }
sub let_go { $holder->query_safe('select pg_advisory_unlock(1)'); return }

# 3,000 names, and one that has to wait for the holder.
my $names = q{select 'user' || i from generate_series(1, 3000) i};
my $held = "$names union all select pg_advisory_xact_lock_shared(1)::text";

# ---- A slow load tells its count once in ten seconds. It runs beside the rest.

my $slow = session();
my $slow_began = time;
$slow->query_until(qr/sent/, qq{\\echo sent
select bloom_create('slow', 1000, source =>
    'select ''u'' || i || pg_sleep(0.05) from generate_series(1, 260) i');
\\echo over
});

# ---- bloom_create

hold();
start("select bloom_create('made', 1e5, source => '" . ($held =~ s/'/''/gr) . "')");
shows(q{command = 'bloom_create' and phase = 'reading the source' and names_read between 1000 and 3000},
	'names are counted while they are read');
shows(q{rows_expected = 3001 and phase_time_left >= '0' and values_read is null and waiting_for is null},
	'their number is expected');
shows(q{datname = 'postgres' and filter::text ~ '^[0-9]+$' and filter <> 0::regclass
        and started_at <= phase_started_at and phase_started_at <= now()},
	'the filter has no name before the commit');

# ---- Who sees what

sub seen_by
{
	my ($role, $database) = @_;
	return $node->safe_psql($database // 'postgres', qq{set role $role;
select pid, datname, filter is not null, command, phase, names_read > 0, started_at is not null
from bloom_progress where pid = $pid});
}
my $all = "$pid|postgres|t|bloom_create|reading the source|t|t";
is(seen_by('owner'), $all, 'a role sees its own sessions');
is(seen_by('colleague'), $all, 'a member of the role sees them');
is(seen_by('monitor'), $all, 'a monitor sees them');
is(seen_by('stranger'), "$pid|postgres|f||||f", 'a stranger sees that there is one');
is(seen_by('monitor', 'other'), "$pid|postgres|f|bloom_create|reading the source|t|t",
	'another database does not know the filter');
my $servers = $node->safe_psql('postgres', q{
select string_agg('select pid from ' || relname, ' union all ')
from pg_class where relname ~ '^pg_stat_progress_' and relkind = 'v'});
is($node->safe_psql('postgres', "select count(*) from ($servers) s where pid = $pid"), '0',
	'the server takes it for no command of its own');
let_go();
finish();
is_gone('the row is gone after a load');

# ---- Cancel, error, the end of the session

hold();
start("select bloom_create('never', 1e5, source => '" . ($held =~ s/'/''/gr) . "')");
shows(q{names_read > 0}, 'a load');
$node->safe_psql('postgres', "select pg_cancel_backend($pid)");
like(finish(), qr/canceling statement/, 'is canceled');
is_gone('the row is gone after a cancel');
start("select bloom_create('never', 1e5, source => '" . ($held =~ s/'/''/gr) . "')");
shows(q{names_read > 0}, 'a load');
$node->safe_psql('postgres', "select pg_terminate_backend($pid, 10000)");
is_gone('the row is gone with the session');
let_go();
new_worker();
start(q{select bloom_create('never', 1e5, source => 'select (1 / (i - 2000))::text from generate_series(1, 3000) i')});
like(finish(), qr/division by zero/, 'a source with an error');
is_gone('the row is gone after an error');

# ---- bloom_rebuild

my $rebuild = "call bloom_rebuild('f', '" . ($held =~ s/'/''/gr) . "', grace => '%s', min_share => 0)";
hold();
$holder->query_safe(q{begin; select bloom_add('f', 'holder')});
start(sprintf $rebuild, '1 minute');
shows(qq{command = 'bloom_rebuild' and phase = 'opening' and filter = 'f'::regclass and waiting_for = $pid_of_holder},
	'a rebuild that cannot begin shows who is in the way');
$holder->query_safe('commit');
shows(q{phase = 'waiting for sign-ups under way' and phase_time_left between '40 s' and '1 minute'
        and names_read is null and waiting_for is null}, 'the rest of the grace period is shown');
$node->safe_psql('postgres', "select pg_cancel_backend($pid)");
like(finish(), qr/NOTICE:  Bloom filter "f": waiting 60 s \(grace\) for sign-ups under way/,
	'a notice says how long it is');
is_gone('the row is gone after a cancel');
start(sprintf $rebuild, '0.5 s');
shows(q{phase = 'reading the source' and names_read between 1000 and 3000 and rows_expected = 3001}, 'reading');
my $started = $node->safe_psql('postgres', "select started_at from bloom_progress where pid = $pid");
$holder->query_safe(q{begin; select bloom_might_contain('f', 'holder')});
let_go();
shows(qq{phase = 'swapping' and waiting_for = $pid_of_holder and names_read = 3001 and chunks_done = chunks_total
        and phase_time_left is null}, 'swapping, with what was done before');
is($node->safe_psql('postgres', "select started_at from bloom_progress where pid = $pid"), $started,
	'the row stays over the commits of the procedure');
$holder->query_safe('commit');
like(finish(), qr/waiting 0\.5 s \(grace\).*holds about/s, 'it ends');
is_gone('the row is gone after a rebuild');
$node->safe_psql('postgres', q{set role owner; create table vals as
select bloom_agg_chunks('user' || i, 1000, 'lower') v
from generate_series(1, 3000) i, generate_series(1, 3) g group by g});
hold();
start(q{call bloom_rebuild('merged', 'select v from vals
union all select v from vals, pg_advisory_xact_lock_shared(1)', 10000, grace => '0', min_share => 0)});
shows(q{phase = 'reading the source' and values_read = 3 and names_read is null}, 'values are counted too');
let_go();
like(finish(), qr/holds about/, 'and read');

# ---- bloom_merge

$holder->query_safe(q{begin; select bloom_add('merged', 'holder')});
my $chunk = $node->safe_psql('postgres', q{select bloom_chunk('holder', 1000)});
start(q{select bloom_merge('merged', bloom_agg_chunks('more' || i, 1000, 'lower')) from generate_series(1, 20000) i});
shows(qq{command = 'bloom_merge' and phase = 'merging' and filter = 'merged'::regclass
        and chunks_done between 1 and $chunk and chunks_total = 1000}, 'a merge that waits for a row');
$holder->query_safe('commit');
finish();
is_gone('the row is gone after a merge');

# ---- Phases that nobody holds

my $watcher = session();
sub watched
{
	my ($sql) = @_;
	$watcher->query_until(qr/sent/, "\\echo sent\nselect watch();\n\\echo over\n");
	my $told = '';
	$node->psql('postgres', $sql, stderr => \$told);
	unlike($told, qr/ERROR/, $sql);
	my $out = $watcher->query_until(qr/over/, '');
	return $out;
}
my $seen = watched(q{select bloom_register('by_hand', 'none')});
like($seen, qr/^bloom_register: reading the chunks in the midst$/m, 'a registration is seen');
$seen = watched(q{call bloom_grow('by_hand')});
like($seen, qr/^bloom_grow: opening$/m, 'a growth is seen when it begins');
like($seen, qr/^bloom_grow: writing in the midst$/m, 'and while it writes');

# ---- The slow load

$slow->query_until(qr/over/, '');
my $told = $slow->{stderr};
my $notices = () = $told =~ /NOTICE:  Bloom filter "slow": \d+ names read, about \d+ s left/g;
cmp_ok($notices, '>=', 1, 'a load of thirteen seconds tells how far it is') or diag($told);
cmp_ok($notices, '<=', (time - $slow_began) / 10, 'no more often than each ten seconds') or diag($told);

# ---- A standby

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
hold();
start(sprintf $rebuild, '0');
shows(q{phase = 'reading the source'}, 'a rebuild on the primary');
$node->wait_for_catchup($standby, 'replay', $node->lsn('flush'));
is($standby->safe_psql('postgres', 'select count(*) from bloom_progress'), '0',
	'on a standby the view works, and shows the sessions of the standby');
let_go();
like(finish(), qr/holds about/, 'the rebuild ends');

$_->quit for $holder, $worker, $slow, $watcher;
$standby->stop;
$node->stop;
done_testing();
