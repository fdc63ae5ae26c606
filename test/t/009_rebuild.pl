# A rebuild beside traffic loses no name, breaks nothing when it breaks off, and has nobody wait.
# Phases are held by an open transaction, an advisory lock in the source, or an open reader.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/..";
use Crash;

my $all = $ENV{BLOOM_TEST_ALL};
my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1, extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', q{
max_prepared_transactions = 5
max_connections = 60
fsync = off
log_lock_waits = on
deadlock_timeout = '100ms'
autovacuum_naptime = '1s'
});
$node->start;
$node->safe_psql('postgres', q{
create extension bloomfilter;
-- Before the filter, so that pg_dump locks it first.
create table in_the_way ();
create table users (username text);
insert into users select 'user' || i from generate_series(1, 20000) i;
select bloom_create('f', 1e6, source => 'select username from users');
});

sub value { return $node->safe_psql('postgres', $_[0]) }
sub status { return value(q{select status from bloom_filters where filter = 'f'::regclass}) }
sub maybe { return value("select bloom_might_contain('f', '$_[0]')") }
sub denied
{
	return value(q{select count(*) from unnest(bloom_might_contain_many('f', array(select username from users))) maybe
		where not maybe});
}
sub leftovers
{
	return value(q{select (select count(*) from pg_class where relname ~ '^bloom_[0-9]+_')
		+ (select count(*) from pg_ls_tmpdir())});
}

sub wait_for_status
{
	my ($expected) = @_;
	ok( $node->poll_query_until('postgres',
			qq{select status = '$expected' from bloom_filters where filter = 'f'::regclass}),
		"status: $expected");
	return;
}

sub session { return $node->background_psql('postgres', on_error_stop => 0, @_) }

# Has a session run something without waiting for it.
sub start
{
	my ($session, $sql) = @_;
	$session->{stderr} = '';
	# A quick one may be over already.
	$session->{said} = $session->query_until(qr/sent/, "\\echo sent\n$sql;\n\\echo over\n");
	return;
}

# Waits for it, and returns what was said on stderr.
sub finish
{
	my ($session) = @_;
	$session->query_until(qr/over/, '') unless $session->{said} =~ /over/;
	my $told = $session->{stderr};
	$session->{stderr} = '';
	return $told;
}

my $source = q{select username from users};
# The source waits, once it has its snapshot, for whoever holds the lock.
my $held_source = q{select username from users, (select pg_advisory_xact_lock_shared(1)) held};
my $holder = session();
my $rebuild = session();

sub hold { $holder->query_safe('select pg_advisory_lock(1)'); return }
sub let_go { $holder->query_safe('select pg_advisory_unlock(1)'); return }

sub start_held
{
	my ($options) = @_;
	hold();
	# Not every name that is added here is a user's.
	start($rebuild, qq{call bloom_rebuild('f', '$held_source', min_share => 0.3$options)});
	wait_for_status('rebuilding: reading the source');
	return;
}

sub finishes
{
	my ($name) = @_;
	my $told = finish($rebuild);
	like($told, qr/holds about \d+ items in \d+ chunks/, $name);
	unlike($told, qr/ERROR|WARNING/, 'without an error');
	is(status(), 'ready', 'ready');
	is(leftovers(), '0', 'nothing is left');
	is(denied(), '0', 'nobody is denied');
	return $told;
}

# ---- Nothing lost

# Sign-ups, checks and adds all through rebuilds.
my $script = PostgreSQL::Test::Utils::tempdir() . '/sign_up.sql';
append_to_file($script, q{
\set n random(1, 2000000000)
select bloom_might_contain('f', 'user' || :n % 20000 + 1);
select bloom_add('f', 'new' || :client_id || '-' || :n);
insert into users values ('new' || :client_id || '-' || :n);
select bloom_add_many('f', array['many' || :n, 'user' || :n % 20000 + 1]);
});
my ($traffic_out, $traffic_err) = ('', '');
my $traffic = IPC::Run::start(
	[ 'pgbench', '-n', '-M', 'prepared', '-c', 16, '-j', 2, '-T', $all ? 60 : 15, '-f', $script,
		$node->connstr('postgres') ], '>', \$traffic_out, '2>', \$traffic_err);
my $rounds = 0;
while ($rounds < 10)
{
	my ($code, $out, $err) = $node->psql('postgres',
		$rounds % 5 == 4
		? q{call bloom_grow('f')}
		: qq{call bloom_rebuild('f', '$source', grace => '0.5 s', capacity => 1000000 + $rounds, min_share => 0)});
	is($code, 0, "rebuild $rounds beside sign-ups") or diag($err);
	# Each time, since the next rebuild would mend what this one lost.
	is(denied(), '0', 'nobody is denied');
	++$rounds;
}
my $traffic_ended = $traffic->finish;
ok($traffic_ended, 'no sign-up failed') or diag($traffic_err);
unlike($traffic_err, qr/ERROR|aborted/, 'nor any statement');
cmp_ok(value(q{select count(*) from users}), '>', 21000, 'there were many');
is(denied(), '0', 'and nobody is denied');
is(leftovers(), '0', 'no table is left');
value('checkpoint');
is( value(q{select count(*) from pg_ls_dir((select 'base/' || oid from pg_database where datname = current_database())) file
	where file ~ '^\d+$' and not exists (select from pg_class where pg_relation_filenode(oid) = file::oid)}),
	'0', 'nor any file');

# An add whose bits were all there: deleted last week, taken again during the rebuild.
value(q{select bloom_add('f', 'taken again')});
start_held(q{, grace => '0'});
is(value(q{select bloom_add('f', 'taken again')}), 'f', 'its bits are there');
is(value(q{select bloom_add('f', 'first time')}), 't', 'others are new');
is(value(q{select bloom_add_many('f', '{many1,taken again,many2}')}), '2', 'many');
# An add in a transaction that began before; at other isolation levels; rolled back; prepared.
my @began = map { session() } 1 .. 4;
$began[0]->query_safe(q{begin isolation level repeatable read; select count(*) from users});
$began[1]->query_safe(q{begin isolation level serializable; select count(*) from users});
$began[2]->query_safe(q{begin});
$_->query_safe(q{select bloom_add('f', 'in transaction')}) for $began[0];
$began[1]->query_safe(q{select bloom_add('f', 'serializable')});
$began[2]->query_safe(q{savepoint a; select bloom_add('f', 'gone'); rollback to a;
savepoint b; select bloom_add('f', 'kept'); release b});
$began[3]->query_safe(q{begin; select bloom_add('f', 'prepared'); prepare transaction 'p'});
like(($node->psql('postgres', q{update f set bits = bits | mask
from username_bits('by hand', (select chunks from bloom_filters)) u where f.chunk = u.chunk}))[2],
	qr/cannot update Bloom filter "f" while it is being rebuilt/, 'a plain update is refused');
like(($node->psql('postgres', q{select bloom_merge('f', bloom_agg_chunks('by value', chunks, 'lower'))
from bloom_filters group by chunks}))[2],
	qr/cannot merge into Bloom filter "f" while it is being rebuilt/, 'so is a merge');
like(($node->psql('postgres', qq{call bloom_rebuild('f', '$source')}))[2],
	qr/is already being rebuilt/, 'and a second rebuild');
let_go();
# It cannot swap as long as they are open, and what it did so far is not in the way.
wait_for_status('rebuilding: swapping');
is(maybe('taken again'), 't', 'checks go on');
$_->query_safe('commit') for @began[ 0, 1, 2 ];
like(status(), qr/rebuilding: swapping/, 'the prepared one is still in the way');
is(value(q{select bloom_add('f', 'while it waits')}), 't', 'adds go on');
value(q{commit prepared 'p'});
finishes('an add whose bits were all there');
is(maybe($_), 't', "there is: $_")
  for 'taken again', 'first time', 'many1', 'many2', 'in transaction', 'serializable', 'kept',
  'prepared', 'while it waits';
is(maybe('gone'), 't', 'what was rolled back stays in the journal: a maybe too many');
$_->quit for @began;

# Suspended while it is rebuilt: it stays so.
start_held(q{, grace => '0'});
value(q{select bloom_suspend('f')});
let_go();
like(finish($rebuild), qr/stays suspended/, 'who suspends a filter while it is rebuilt');
is(status(), 'suspended', 'finds it suspended');
value(q{select bloom_resume('f')});

# The journal is a file out of reach of SQL: whoever gets at it all the same has the rebuild fail, not
# an add be lost.
my $open = session();
sub journal { return value(q{select name from pg_ls_tmpdir() where name ~ 'bloom'}) }
sub start_waiting_swap
{
	$open->query_safe(q{begin; select bloom_might_contain('f', 'ada')});
	start($rebuild, qq{call bloom_rebuild('f', '$source', grace => '0', min_share => 0.3)});
	wait_for_status('rebuilding: swapping');
	return $node->data_dir . '/base/pgsql_tmp/' . journal();
}
unlink(start_waiting_swap()) or die 'no journal';
my $refusal = ($node->psql('postgres', q{select bloom_add('f', 'not kept')}))[2];
# Or the rebuild saw it first, and had broken off by then.
ok($refusal =~ /the rebuild journal of Bloom filter "f" does not exist/
	  || ($refusal eq '' && status() =~ /broken off/), 'an add that cannot be kept is refused')
  or diag($refusal);
$open->query_safe('commit');
like(finish($rebuild), qr/entries may be missing from journal file/, 'a journal that is gone');
is(value(q{select bloom_add('f', 'after it broke off')}), 't', 'and adds go on');
truncate(start_waiting_swap(), 0) or die 'no journal';
append_to_file($node->data_dir . '/base/pgsql_tmp/' . journal(), 'half an entry');
$open->query_safe('commit');
like(finish($rebuild), qr/entries may be missing from journal file/, 'a journal with part of an entry');
is(journal(), '', 'and removes the file');
value(qq{call bloom_rebuild('f', '$source', grace => '0', min_share => 0.3)});
$open->quit;

# The user's row commits while the source is being read: too late for it, in time for the grace.
my $late = session();
value(q{select bloom_add('f', 'late')});
$late->query_safe(q{begin; insert into users values ('late')});
start_held(q{, grace => '0'});
$late->query_safe('commit');
let_go();
my $told = finish($rebuild);
like($told, qr/holds about/, 'a rebuild without grace');
like($told, qr/normalization "lower" of Bloom filter "f" folds ASCII letters only/, 'tells what lower does here');
is(maybe('late'), 'f', 'loses a sign-up under way');
value(q{select bloom_add('f', 'late'), bloom_add('f', 'late2')});
$late->query_safe(q{begin; insert into users values ('late2')});
my $grace = $all ? '1 minute' : '4 s';
start($rebuild, qq{call bloom_rebuild('f', '$source', grace => '$grace', min_share => 0.3)});
wait_for_status('rebuilding: waiting for sign-ups under way');
$late->query_safe('commit');
finishes('a rebuild with grace');
is(maybe('late2'), 't', 'keeps it');
# Whatever isolation level transactions begin with.
value(q{select bloom_add('f', 'late3')});
$late->query_safe(q{begin; insert into users values ('late3')});
$rebuild->query_safe(q{set default_transaction_isolation = 'repeatable read'});
start($rebuild, qq{call bloom_rebuild('f', '$source', grace => '4 s', min_share => 0.3)});
wait_for_status('rebuilding: waiting for sign-ups under way');
$late->query_safe('commit');
finishes('at repeatable read');
$rebuild->query_safe(q{reset default_transaction_isolation});
is(maybe('late3'), 't', 'keeps it too');
$late->quit;

# ---- Old snapshots, here and on a standby

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'hot_standby_feedback = on');
$standby->start;
my @old = (session(), session(),
	$standby->background_psql('postgres', on_error_stop => 0),
	$standby->background_psql('postgres', on_error_stop => 0));
$_->query_safe(q{begin isolation level repeatable read; select count(*) from users}) for @old[ 0, 2 ];
$_->query_safe(q{begin; declare c cursor for select username, bloom_might_contain('f', username) as maybe from users})
  for @old[ 1, 3 ];
# A dump that has its snapshot, and waits for its locks.
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
$holder->query_safe('begin; lock table in_the_way in access exclusive mode');
my $dumping = IPC::Run::start(
	[ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('postgres') ], '>', \my $dump_out, '2>', \my $dump_err);
$node->poll_query_until('postgres', q{select count(*) > 0 from pg_locks where not granted
and relation = 'in_the_way'::regclass});
$node->safe_psql('postgres', qq{call bloom_rebuild('f', '$source', grace => '0', min_share => 0.3)});
$node->safe_psql('postgres', q{call bloom_grow('f')});
$node->wait_for_catchup($standby, 'replay', $node->lsn('flush'));
my $audit = q{select count(*) from users where not bloom_might_contain('f', username)};
my $by_hand = q{select count(*) from users, username_bits(username, (select count(*)::int from f)) u
join f using (chunk) where f.bits & u.mask = u.mask};
my $users = value(q{select count(*) from users});
for my $i (0, 2)
{
	is($old[$i]->query_safe($audit), '0', 'an older snapshot denies nobody');
	is($old[$i]->query_safe($by_hand), $users, 'nor does hand-written SQL under it');
}
for my $i (1, 3)
{
	my $fetched = $old[$i]->query_safe('fetch all from c');
	unlike($fetched, qr/\|f$/m, 'nor an older cursor');
	is(scalar(() = $fetched =~ /\|t$/mg), $users, 'of anybody');
}
$holder->query_safe('commit; drop table in_the_way');
ok($dumping->finish, 'pg_dump') or diag($dump_err);
for my $database ('restored', 'copied')
{
	$node->safe_psql('postgres', "create database $database template template0");
	$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr($database), $dump ], 'restored');
}
is($node->safe_psql('restored', qq{select bloom_resume('f'); $audit}), "\n0", 'a dump from before denies nobody');
# A copy is suspended, and its filter is rebuilt beside adds, too.
my $copy = $node->background_psql('copied', on_error_stop => 0);
$copy->{stderr} = '';
is($node->safe_psql('copied', q{select status from bloom_filters}),
	'suspended: a copy of the filter that names were added to', 'a copy');
my $copy_source = $held_source;
$copy_source =~ s/pg_advisory_xact_lock_shared\(1\)/pg_advisory_xact_lock_shared(2)/;
my $copy_holder = $node->background_psql('copied', on_error_stop => 0);
$copy_holder->query_safe('select pg_advisory_lock(2)');
$copy->{said} = $copy->query_until(qr/sent/, "\\echo sent\ncall bloom_rebuild('f', '$copy_source', grace => '0', min_share => 0);\n\\echo over\n");
$node->poll_query_until('copied', q{select status = 'rebuilding: reading the source' from bloom_filters});
is($node->safe_psql('copied', q{select bloom_add('f', 'added to the copy') is null}), 'f', 'an add to a restored filter');
$copy_holder->query_safe('select pg_advisory_unlock(2)');
finish($copy);
is($node->safe_psql('copied', q{select status, bloom_might_contain('f', 'added to the copy') from bloom_filters}), 'ready|t',
	'that is rebuilt is kept');
$_->quit for $copy, $copy_holder;
$_->quit for @old;
is($standby->safe_psql('postgres', $audit), '0', 'nor does the standby');
$node->safe_psql('postgres', q{create extension amcheck});
my $amcheck = q{select bt_index_check('f_pkey', true); select * from verify_heapam('f')};
is(value($amcheck), '', 'amcheck');
value('vacuum (freeze) f');
is(value($amcheck), '', 'amcheck after vacuum freeze');
value(q{select bloom_add_many('f', array(select 'after' || i from generate_series(1, 5000) i))});
$node->wait_for_catchup($standby, 'replay', $node->lsn('flush'));
is($standby->safe_psql('postgres', q{select count(*) from generate_series(1, 5000) i where not bloom_might_contain('f', 'after' || i)}),
	'0', 'the standby follows');
is($standby->safe_psql('postgres', $amcheck), '', 'amcheck there');

# ---- Broken off

# Each phase, held, and ended in every way.
sub hold_phase
{
	my ($phase) = @_;
	my %held = (
		'opening' => sub { $holder->query_safe(q{begin; select bloom_add('f', 'holder')}) },
		'waiting for sign-ups under way' => sub { },
		'reading the source' => sub { hold() },
		'swapping' => sub { $holder->query_safe(q{begin; select bloom_might_contain('f', 'holder')}) });
	$held{$phase}->();
	my $grace = $phase =~ /waiting/ ? '1 minute' : '0';
	start($rebuild, qq{call bloom_rebuild('f', '$held_source', grace => '$grace', min_share => 0.3)});
	wait_for_status("rebuilding: $phase");
	return;
}

sub release_phase
{
	my ($phase) = @_;
	$holder->query_safe('commit') if $phase eq 'opening' || $phase eq 'swapping';
	let_go() if $phase eq 'reading the source';
	return;
}

sub old_filter_serves
{
	my ($phase, $how, $left) = @_;
	is(status(), $left ? 'rebuild broken off' : 'ready', "$how while $phase");
	is(denied(), '0', 'the old filter serves');
	is(value(qq{select bloom_add('f', '$how $phase'), bloom_might_contain('f', '$how $phase')}), 't|t', 'adds go on');
	return;
}

my $pid = q{(select distinct pid from pg_locks where locktype = 'object' and objsubid = 31488 and granted)};
for my $phase ('opening', 'waiting for sign-ups under way', 'reading the source', 'swapping')
{
	hold_phase($phase);
	is(value("select pg_cancel_backend($pid)"), 't', 'cancel');
	like(finish($rebuild), qr/canceling statement due to user request/, 'it tells');
	release_phase($phase);
	old_filter_serves($phase, 'cancelled', $phase ne 'opening');

	hold_phase($phase);
	is(value("select pg_terminate_backend($pid, 10000)"), 't', 'terminate');
	release_phase($phase);
	$rebuild = session();
	old_filter_serves($phase, 'terminated', $phase ne 'opening');
}
$rebuild->query_safe(q{set statement_timeout = '4s'});
hold_phase('reading the source');
like(finish($rebuild), qr/canceling statement due to statement timeout/, 'a statement timeout');
release_phase('reading the source');
old_filter_serves('reading', 'timed out', 1);
$rebuild->query_safe(q{reset statement_timeout});

for my $phase ('waiting for sign-ups under way', 'reading the source', 'swapping')
{
	hold_phase($phase);
	my @added = map { "$phase-$_" } 1 .. 50;
	value("select bloom_add('f', '$_')") for @added;
	kill_server($node);
	$node->start;
	$_ = session() for $holder, $rebuild;
	old_filter_serves($phase, 'crashed', 1);
	is(scalar(grep { maybe($_) ne 't' } @added), 0, 'with all that was added');
}
value(qq{call bloom_rebuild('f', '$source', grace => '0', min_share => 0.3)});
is(status(), 'ready', 'the next rebuild cleans up');
is(leftovers(), '0', 'all of it');
is(denied(), '0', 'and denies nobody');
is(value(q{select count(*) from pg_locks where locktype = 'object'}), '0', 'no lock is left');

# The filter is dropped, or made anew, while it is rebuilt.
start($rebuild, qq{call bloom_rebuild('f', '$source', grace => '4 s')});
wait_for_status('rebuilding: waiting for sign-ups under way');
value(q{drop table f; select bloom_create('f', 1e6, source => 'select username from users')});
like(finish($rebuild), qr/ERROR:  Bloom filter with OID \d+ was dropped during its rebuild/, 'a filter that was dropped meanwhile');
is(status(), 'ready', 'does not harm its successor');
is(leftovers(), '0', 'and leaves nothing');

# ---- Nobody waits

my $seconds = $all ? 20 : 5;
my $log_start = -s $node->logfile;
append_to_file("$script.quick", q{
\set n random(1, 2000000000)
select bloom_might_contain('f', 'user' || :n % 20000 + 1);
select bloom_add('f', 'quick' || :n);
});
my $reader = session();
start_held(q{, grace => '0'});
$reader->query_safe(q{begin; select bloom_might_contain('f', 'ada')});
let_go();
wait_for_status('rebuilding: swapping');
$node->command_ok(
	[ 'pgbench', '-n', '-M', 'prepared', '-c', 8, '-j', 2, '-T', $seconds, '-f', "$script.quick",
		$node->connstr('postgres') ], "checks and adds while a reader holds the filter for $seconds s");
like(status(), qr/rebuilding: swapping/, 'the swap still tries');
$reader->query_safe('commit');
like(finishes('and is done when the reader ends'), qr/rebuild of Bloom filter "f" is waiting for process \d+/, 'it told whom it waited for');
my $log = substr(slurp_file($node->logfile), $log_start);
unlike($log, qr/still waiting for (AccessShare|RowExclusive)Lock on relation/, 'nobody waited for long');
$reader->quit;

$_->quit for $holder, $rebuild;
$standby->stop;
$node->stop;
done_testing();
