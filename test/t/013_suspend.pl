# bloom_suspend, the switch for an emergency: whatever is open, it waits for no lock, and from its
# commit on checks answer maybe; beside a rebuild in any of its phases, which it outlives.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
$node->append_conf('postgresql.conf', "max_prepared_transactions = 5\nautovacuum = off\n");
$node->start;
$node->safe_psql('postgres', q{
create extension bloomfilter;
select bloom_create('f', 1000, ready => true);
select bloom_add('f', 'ada');
create view status as select status from bloom_filters where filter = 'f'::regclass;
});
my ($switch, $checks, $other) =
  map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 3;
# Nobody's lock is waited for: not even for a moment.
$switch->query_safe(q{set lock_timeout = '10ms'; set client_min_messages = warning});
my $check = q{select bloom_might_contain('f', 'nobody')};
$_->query_safe("set client_min_messages = error") for $checks, $other;

# Suspends beside what is open, and looks at once; then says how long it took. The limit is for a slow
# machine: what waited for a lock would fail, or never come.
sub suspends
{
	my ($name) = @_;
	my $since = time;
	$switch->{stderr} = '';
	$switch->query(q{select bloom_suspend('f')});
	is($switch->{stderr}, '', "suspended: $name");
	is($checks->query_safe($check), 't', "checks answer maybe: $name");
	my $took = time - $since;
	note(sprintf '%.0f ms', 1000 * $took);
	cmp_ok($took, '<', 30, "soon: $name");
	return;
}
sub resume
{
	$node->safe_psql('postgres', q{select bloom_resume('f')});
	is($checks->query_safe($check), 'f', 'resumed');
	return;
}

is($checks->query_safe($check), 'f', 'nobody is there');
suspends('nothing is open');
resume();

$other->query_safe(q{begin; select bloom_add('f', 'liv')});
suspends('an add');
$other->query_safe('commit');
resume();

$node->safe_psql('postgres', q{begin; select bloom_add('f', 'lena'); prepare transaction 'p'});
suspends('a prepared add');
$node->safe_psql('postgres', q{commit prepared 'p'});
resume();

$other->query_safe("begin isolation level repeatable read; $check; select count(*) from f");
suspends('a reader');
is($other->query_safe($check), 't', 'which answers maybe too');
$other->query_safe('commit');
resume();

# As long as bloom_resume waits for an add.
$other->query_safe(q{begin; select bloom_add('f', 'rolf')});
my $resumes = $node->background_psql('postgres', on_error_stop => 0);
$resumes->query_until(qr/begun/, "set client_min_messages = warning;\n\\echo begun\nselect bloom_resume('f');\n");
$node->poll_query_until('postgres', q{select count(*) = 1 from pg_locks where not granted}) or die;
suspends('a resume that waits');
$other->query_safe('commit');
$resumes->query_safe('select 1');
is($checks->query_safe($check), 'f', 'the resume came last');

# A rebuild, while it waits for sign-ups, reads and swaps. It keeps the suspension, of which it
# knows no reason. What $other has open holds the rebuild in its phase, or else the grace does, for
# long enough on a slow machine.
sub beside_rebuild
{
	my ($phase, $grace, $source, $resumed) = @_;
	my $rebuild = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $rebuild->query_safe('select pg_backend_pid()');
	$rebuild->query_until(qr/begun/,
		"\\echo begun\ncall bloom_rebuild('f', \$\$$source\$\$, grace => '$grace', min_share => 0);\n");
	$node->poll_query_until('postgres', "select status = 'rebuilding: $phase' from status")
	  or die "no $phase";
	suspends("a rebuild $phase");
	is($node->safe_psql('postgres', 'select status from status'),
		"rebuilding: $phase", 'which goes on');
	$node->safe_psql('postgres', q{select bloom_resume('f')}) if $resumed;
	$other->query_safe('commit');
	$rebuild->query('select 1');
	like($rebuild->{stderr}, qr/NOTICE:  Bloom filter "f" holds about/, 'to its end');
	is($node->safe_psql('postgres', 'select status from status'),
		$resumed ? 'ready' : 'suspended', 'the status after it');
	is($checks->query_safe($check), $resumed ? 'f' : 't', 'and what checks answer');
	$rebuild->quit;
	resume() unless $resumed;
	return;
}
my $names = q{select unnest('{ada,liv,lena,rolf}'::text[])};
my $held = "$names from (select pg_advisory_xact_lock_shared(1) offset 0) held";
beside_rebuild('waiting for sign-ups under way', '5', $names, $_) for 0, 1;
for my $resumed (0, 1)
{
	$other->query_safe('begin; select pg_advisory_xact_lock(1)');
	beside_rebuild('reading the source', '0', $held, $resumed);
	$other->query_safe("begin; $check");
	beside_rebuild('swapping', '0', $names, $resumed);
}

# Settings that are being changed are those that a rebuild waits for, and goes by.
$other->query_safe(q{begin; select bloom_suspend('f')});
my $rebuild = $node->background_psql('postgres', on_error_stop => 0);
$rebuild->query_until(qr/begun/,
	"\\echo begun\ncall bloom_rebuild('f', \$\$$names\$\$, grace => '0', min_share => 0);\n");
$node->poll_query_until('postgres', q{select status = 'rebuilding: opening' from status}) or die;
is($checks->query_safe($check), 'f', 'not suspended yet');
$other->query_safe('commit');
$rebuild->query('select 1');
like($rebuild->{stderr}, qr/NOTICE:  Bloom filter "f" holds about/, 'a rebuild waits for settings');
is($node->safe_psql('postgres', 'select status from status'),
	'ready', 'and cures a suspension from before it');

# Many at once: no settings are lost, and nobody fails.
$node->pgbench('--no-vacuum --client=4 --transactions=50 --file=' . do {
		my $file = $node->basedir . '/switch.sql';
		append_to_file($file, "select bloom_suspend('f');\nselect bloom_resume('f');\n"
			  . "select bloom_add('f', :client_id::text);\n");
		$file;
	}, 0, [qr{actually processed: 200/200}], [qr/^(?!.*ERROR)/s], 'many switch at once');
is($node->safe_psql('postgres', 'select status from status'), 'ready', 'the last was a resume');
is($node->safe_psql('postgres', q{
select tgenabled from pg_trigger where tgrelid = 'f'::regclass and tgname = 'bloom_filter'}),
	'A', 'the guard is whole');

$_->quit for $switch, $checks, $other, $resumes, $rebuild;
$node->stop;
done_testing();
