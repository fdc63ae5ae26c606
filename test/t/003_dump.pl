# A filter that is dumped and restored: settings, guard and bits come along, whole or with -t alone,
# and an empty search_path does not matter. The copy lacks what was added since, so it answers maybe
# until bloom_resume.
use strict;
use warnings;
use utf8;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @utf8 = (extra => [ '--encoding=UTF8', '--locale=C' ]);
my $node = PostgreSQL::Test::Cluster->new('here');
$node->init(@utf8);
$node->start;
my $other = PostgreSQL::Test::Cluster->new('there');
$other->init(@utf8);
$other->start;

$ENV{PGCLIENTENCODING} = 'UTF8';
my $dumps = PostgreSQL::Test::Utils::tempdir();
utf8::encode(my $members = '{ada,LIV,Åsa,Željko,Ολγα}');

# Filters in two schemas, the extension in a third, all with names that need quotes.
my $extension = 'create schema "Bloom ext"; create extension bloomfilter schema "Bloom ext"';
$node->safe_psql('postgres', qq{
$extension;
set search_path = public, "Bloom ext";
select bloom_create('f', 1000, ready => true);
select bloom_add_many('f', '$members');
create schema "my names";
select bloom_create('"my names"."F %"', 5000, 0.001, 'none', 'select unnest(''$members''::text[])');
});

my $answers = qq{select bloom_might_contain_many('f', '$members'),
bloom_might_contain('f', 'nobody')};
my $right = '{t,t,t,t,t}|f';
my $guard = q{select tgenabled, tgargs from pg_trigger
where tgname = 'bloom_filter' and tgrelid = 'f'::regclass};
my $bits = q{select md5(string_agg(md5(bits::text), ',' order by chunk)) from f};
my $status = q{select status from bloom_filters where filter = 'f'::regclass};
my $copy = 'suspended: a copy of the filter that names were added to';

sub dump_of
{
	my ($database, $name, @options) = @_;
	$node->command_ok(
		[ 'pg_dump', @options, '-f', "$dumps/$name", $node->connstr($database) ],
		"pg_dump @options $database");
	return "$dumps/$name";
}

# Has psql or pg_restore read a dump.
sub restore
{
	my ($to, $database, $file) = @_;
	my $target = $to->connstr($database);
	$to->command_ok(
		$file =~ /\.sql$/
		? [ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', $file, '-d', $target ]
		: [ 'pg_restore', '--exit-on-error', '-j2', '-d', $target, $file ],
		"restored into $database");
	return;
}

# The result of a query, with the extension's schema in the search path.
sub row
{
	my ($of, $database, $sql) = @_;
	return $of->safe_psql($database, qq{set search_path = public, "Bloom ext"; $sql});
}

# The same, with what psql says on stderr.
sub told
{
	my ($of, $database, $sql) = @_;
	my (undef, $output, $error) = $of->psql($database,
		qq{set search_path = public, "Bloom ext"; $sql},
		extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	return ($output, $error);
}

# The copy answers maybe, for that reason, and takes adds; once it is resumed it answers as the
# original did, and knows what was added to it.
sub resumes
{
	my ($of, $database, $reason) = @_;
	is(row($of, $database, $status), $reason, "$database: $reason");
	my ($output, $notice) = told($of, $database, $answers);
	is($output, '{t,t,t,t,t}|t', 'every check answers maybe');
	like($notice,
		qr/NOTICE:  .*checks of Bloom filter "f" answer maybe\nDETAIL:  Its status is "\Q$reason\E"/,
		'and tells why');
	is(row($of, $database,
			q{select bloom_add('f', 'since'), bloom_add_many('f', '{since,then}')}),
		'f|0', 'adds go on, nothing is called new');
	is(row($of, $database, q{select bloom_resume('f')}), '', 'bloom_resume');
	is(row($of, $database, $status), 'ready', 'ready');
	is(row($of, $database, $answers), $right, 'it answers again');
	is(row($of, $database, q{select bloom_might_contain_many('f', '{since,then}')}),
		'{t,t}', 'and knows what was added meanwhile');
	return;
}

my $plain = dump_of('postgres', 'all.sql');
my $custom = dump_of('postgres', 'all.dump', '-Fc');
my $alone = dump_of('postgres', 'f.sql', '-t', 'public.f');

# Into another database of the same server, whole and alone.
$node->safe_psql('postgres', "create database $_ template template0") for qw(plain custom alone);
$node->safe_psql('alone', $extension);
restore($node, 'plain', $plain);
restore($node, 'custom', $custom);
restore($node, 'alone', $alone);
for my $database (qw(plain custom alone))
{
	is(row($node, $database, $bits), row($node, 'postgres', $bits), "$database: the same bits");
	is(row($node, $database, $guard), row($node, 'postgres', $guard), "$database: the same guard");
	like(row($node, $database, $guard), qr/^A\|/, 'which always fires');
	resumes($node, $database, $copy);
}
is(row($node, 'postgres', "$status; $answers"), "ready\n$right", 'the original goes on');
row($node, 'custom', q{select bloom_resume('"my names"."F %"')});
is(row($node, 'custom', qq{select bloom_might_contain_many('"my names"."F %"', '$members'),
	bloom_might_contain('"my names"."F %"', 'liv')}), $right, 'the other filter too');
is($node->safe_psql('plain', q{
	set search_path = '';
	select "Bloom ext".bloom_might_contain('public.f', 'nobody'),
		"Bloom ext".bloom_add('public.f', 'new'), "Bloom ext".bloom_might_contain('public.f', 'new')}),
	'f|t|t', 'an empty search_path');
like((told($node, 'plain', q{delete from f where chunk = 1}))[1],
	qr/ERROR:  55000: cannot delete a chunk of Bloom filter "f"/, 'the guard guards');

# A copy of a whole database, and a dump in the place of the original.
$node->safe_psql('template1', 'create database twin template custom');
resumes($node, 'twin', $copy);
my $again = dump_of('plain', 'again.sql', '-t', 'public.f');
$node->safe_psql('plain', 'drop table f');
restore($node, 'plain', $again);
resumes($node, 'plain', $copy);

# Into another server.
for my $database (qw(plain custom))
{
	$other->safe_psql('postgres', "create database $database template template0");
	restore($other, $database, $database eq 'plain' ? $plain : $custom);
	resumes($other, $database, 'suspended: restored on another server');
}

# A dump's older rows cannot be put in the place of those that were added to since.
like((told($node, 'alone', 'truncate f'))[1],
	qr/ERROR:  55000: cannot truncate Bloom filter "f"/, 'a filter is not emptied');

# Definition and data apart. pg_restore turns all triggers on in the ordinary way afterwards: an
# error until the guards always fire again.
my $definition = dump_of('postgres', 'definition.dump', '-Fc', '-s', '-t', 'public.f');
my $data = dump_of('postgres', 'data.dump', '-Fc', '-a', '-t', 'public.f');
$node->safe_psql('postgres', 'create database apart template template0');
$node->safe_psql('apart', $extension);
restore($node, 'apart', $definition);
$node->command_ok(
	[ 'pg_restore', '--exit-on-error', '-a', '--disable-triggers', '-d', $node->connstr('apart'), $data ],
	'pg_restore --disable-triggers');
for my $name ('bloom_filter', 'bloom_filter_truncate')
{
	like((told($node, 'apart', $answers))[1],
		qr/ERROR:  55000: .*\nDETAIL:  Its guard trigger "$name" does not always fire\.
HINT:  Run: alter table public\.f enable always trigger $name$/m,
		'leaves the guards weaker, which is noticed');
	$node->safe_psql('apart', "alter table f enable always trigger $name");
}
resumes($node, 'apart', $copy);

$node->stop;
$other->stop;
done_testing();
