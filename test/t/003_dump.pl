# A filter that is dumped and restored: settings, guard and bits come along, whole or with -t alone,
# and an empty search_path does not matter. The copy lacks what was added since, so it answers maybe
# until bloom_resume, which is refused where the encoding or the locale lowers another way.
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
utf8::encode(my $asa = 'åsa');

# Filters in two schemas, the extension in a third, all with names that need quotes.
$node->safe_psql('postgres', qq{
create schema "Bloom ext";
create extension bloomfilter schema "Bloom ext";
set search_path = public, "Bloom ext";
select bloom_create('f', 1000, ready => true);
select bloom_add_many('f', '$members');
create schema "my names";
select bloom_create('"my names"."F %"', 5000, 0.001, 'none', 'select unnest(''$members''::text[])');
});

sub dump_of
{
	my ($database, $name, @options) = @_;
	$node->command_ok([ 'pg_dump', @options, '-f', "$dumps/$name", $node->connstr($database) ],
		"pg_dump @options $database");
	return "$dumps/$name";
}

# A new database, and a file restored into it by psql or pg_restore.
sub restored
{
	my ($to, $database, $file, %options) = @_;
	$to->safe_psql('postgres', "create database $database template template0 " . ($options{like} // ''));
	$to->safe_psql($database, $options{first}) if $options{first};
	my @command = $file =~ /\.sql$/
	  ? ('psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', $file, '-d', $to->connstr($database))
	  : ('pg_restore', '--exit-on-error', '-j2', '-d', $to->connstr($database), $file);
	$to->command_ok(\@command, "restored into $database");
	return;
}

my $answers = qq{select bloom_might_contain_many('f', '$members'), bloom_might_contain('f', 'nobody')};
my $right = '{t,t,t,t,t}|f';
my $guard = q{select tgenabled, tgargs from pg_trigger
where tgname = 'bloom_filter' and tgrelid = 'f'::regclass};
my $bits = q{select md5(string_agg(md5(bits::text), ',' order by chunk)) from f};
my $status = q{select status from bloom_filters where filter = 'f'::regclass};

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
	my ($status, $output, $error) = $of->psql($database,
		qq{set search_path = public, "Bloom ext"; $sql},
		extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	return ($output, $error);
}

sub refuses
{
	my ($database, $call) = @_;
	like((told($node, $database, "select $call"))[1],
		qr/ERROR:  55000: cannot add .*\nDETAIL:  Normalisation "lower" is no longer .*\nHINT:  Call bloom_suspend/,
		"$database: $call is refused");
	return;
}

# The copy answers maybe, for that reason, and takes adds; once it is resumed it answers as the
# original did, and knows what was added to it.
sub resumes
{
	my ($of, $database, $reason) = @_;
	is(row($of, $database, $status), $reason, "$database: $reason");
	my ($output, $notice) = told($of, $database, $answers);
	is($output, '{t,t,t,t,t}|t', 'every check answers maybe');
	like($notice, qr/NOTICE:  .*checks of Bloom filter "f" answer maybe\nDETAIL:  It is \Q$reason\E/, 'and tells why');
	is(row($of, $database, q{select bloom_add('f', 'since'), bloom_add_many('f', '{since,then}')}), 'f|0',
		'adds go on, nothing is called new');
	is(row($of, $database, q{select bloom_resume('f')}), '', 'bloom_resume');
	is(row($of, $database, $status), 'ready', 'ready');
	is(row($of, $database, $answers), $right, 'it answers again');
	is(row($of, $database, q{select bloom_might_contain_many('f', '{since,then}')}), '{t,t}',
		'and knows what was added meanwhile');
	return;
}

my $plain = dump_of('postgres', 'all.sql');
my $custom = dump_of('postgres', 'all.dump', '-Fc');
my $alone = dump_of('postgres', 'f.sql', '-t', 'public.f');

# Into another database of the same server, whole and alone.
restored($node, 'plain', $plain);
restored($node, 'custom', $custom);
restored($node, 'alone', $alone, first => 'create schema "Bloom ext"; create extension bloomfilter schema "Bloom ext"');
for my $database (qw(plain custom alone))
{
	is(row($node, $database, $bits), row($node, 'postgres', $bits), "$database: the same bits");
	is(row($node, $database, $guard), row($node, 'postgres', $guard), "$database: the same guard");
	like(row($node, $database, $guard), qr/^A\|/, 'which always fires');
	resumes($node, $database, 'suspended: a copy of the filter that names were added to');
}
is(row($node, 'postgres', qq{$status; $answers}), "ready\n$right", 'the original goes on');
row($node, 'custom', q{select bloom_resume('"my names"."F %"')});
is(row($node, 'custom', qq{select bloom_might_contain_many('"my names"."F %"', '$members'),
	bloom_might_contain('"my names"."F %"', 'liv')}), $right, 'the other filter too');
is($node->safe_psql('plain', q{
	set search_path = '';
	select "Bloom ext".bloom_might_contain('public.f', 'ada'), "Bloom ext".bloom_might_contain('public.f', 'nobody'),
	"Bloom ext".bloom_add('public.f', 'new'), "Bloom ext".bloom_might_contain('public.f', 'new')}),
	't|f|t|t', 'an empty search_path');
like((told($node, 'plain', q{delete from f where chunk = 1}))[1],
	qr/ERROR:  55000: cannot delete a chunk of Bloom filter "f"/, 'the guard guards');

# A copy of the whole database, and the dump in the place of the original.
$node->safe_psql('template1', 'create database twin template custom');
resumes($node, 'twin', 'suspended: a copy of the filter that names were added to');
my $again = dump_of('plain', 'again.sql', '-t', 'public.f');
$node->safe_psql('plain', 'drop table f');
$node->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', $again, '-d', $node->connstr('plain') ],
	'restored in the place of the original');
resumes($node, 'plain', 'suspended: a copy of the filter that names were added to');

# Into another server.
for my $file ($plain, $custom)
{
	my $database = $file eq $plain ? 'plain' : 'custom';
	restored($other, $database, $file);
	resumes($other, $database, 'suspended: restored on another server');
}

# Data alone, into a table that is there. pg_restore turns all triggers on in the ordinary way
# afterwards: an error until the guard always fires again.
my $data = dump_of('postgres', 'data.dump', '-Fc', '-a', '-t', 'public.f');
$node->safe_psql('alone', 'truncate f');
$node->command_ok([ 'pg_restore', '--exit-on-error', '-a', '--disable-triggers', '-d', $node->connstr('alone'), $data ],
	'pg_restore --disable-triggers');
like((told($node, 'alone', $answers))[1], qr/ERROR:  55000: .*\nDETAIL:  Its guard trigger "bloom_filter" does not always fire\.\nHINT:  Use ALTER TABLE \.\.\. ENABLE ALWAYS TRIGGER bloom_filter\./,
	'leaves the guard weaker, which is noticed');
$node->safe_psql('alone', 'alter table f enable always trigger bloom_filter');
is(row($node, 'alone', $answers), $right, 'mended');
TODO:
{
	local $TODO = 'a table that was emptied and filled again counts as the one that every add reached';
	is(row($node, 'alone', q{select bloom_might_contain_many('f', '{since,then}')}), '{t,t}',
		'names added since the dump are not denied');
}

# Another encoding: there names beyond ASCII may be meant otherwise, and there is no way to have the
# copy trusted. It can be suspended to take them until the filter is made anew.
for my $encoding (qw(LATIN1 SQL_ASCII))
{
	my $database = lc $encoding;
	restored($node, $database, $alone, like => "encoding $encoding locale 'C'",
		first => 'create schema "Bloom ext"; create extension bloomfilter schema "Bloom ext"');
	is((told($node, $database, "select bloom_might_contain_many('f', '{ada,$asa,nobody}')"))[0],
		'{t,t,t}', 'every check answers maybe');
	is(row($node, $database, q{select bloom_add('f', 'KEN')}), 'f', 'ASCII is added');
	refuses($database, "bloom_add('f', '$asa')");
	refuses($database, "bloom_add_many('f', '{iris,$asa}')");
	is(row($node, $database, qq{select bloom_suspend('f'); select bloom_add('f', '$asa')}), "\nf",
		'unless suspended');
	is((told($node, $database, "select bloom_might_contain('f', '$asa')"))[0], 't', 'maybe');
	like((told($node, $database, q{select bloom_resume('f')}))[1],
		qr/ERROR:  55000: cannot resume Bloom filter "f"/, 'and cannot be resumed');
}

# The locale of a database changes under it, as when the C library or ICU is upgraded: first one
# that lowers ASCII as before, then one that does not, then back.
sub change_locale
{
	my ($locale) = @_;
	my ($provider, $name) = $locale ? ("'i'", "'$locale'") : ("'c'", 'null');
	my $column = $node->safe_psql('template1', q{select attname from pg_attribute
		where attrelid = 'pg_database'::regclass and attname in ('datlocale', 'daticulocale')});
	return $node->psql('template1',
		"update pg_database set datlocprovider = $provider, $column = $name where datname = 'postgres'");
}

SKIP:
{
	skip 'the server has no ICU', 1
	  unless $node->safe_psql('postgres', q{select count(*) > 0 from pg_collation where collprovider = 'i'}) eq 't';
	change_locale('en');
	is(row($node, 'postgres', "select lower('Å') = 'å', lower('I') = 'i'"), 't|t', 'English');
	is(row($node, 'postgres', q{select bloom_might_contain_many('f', '{ada,LIV,nobody}')}), '{t,t,f}', 'ASCII answers');
	is(row($node, 'postgres', q{select bloom_add('f', 'KEN'), bloom_might_contain('f', 'ken')}), 't|t', 'and is added');
	my ($output, $warning) = told($node, 'postgres',
		"select bloom_might_contain('f', '$asa'); select bloom_might_contain('f', '${asa}x')");
	is($output, "t\nt", 'other names answer maybe');
	my @warnings = $warning =~ /WARNING:  .*normalisation "lower" is no longer what Bloom filter "f" was built with/g;
	is(scalar @warnings, 1, 'with one warning a session');
	refuses('postgres', "bloom_add('f', '$asa')");
	refuses('postgres', "bloom_add_many('f', '{iris,$asa}')");
	is(row($node, 'postgres', q{select bloom_might_contain('f', 'iris')}), 'f', 'of whom none is added');
	is(row($node, 'postgres', $status), 'normalisation changed: only ASCII is denied', 'so says the status');
	like((told($node, 'postgres', q{select bloom_resume('f')}))[1],
		qr/ERROR:  55000: cannot resume Bloom filter "f"/, 'no way to have it trusted');

	change_locale('tr');
	utf8::encode(my $iris = 'ırıs');
	is(row($node, 'postgres', "select lower('IRIS') = '$iris'"), 't', 'Turkish');
	($output, $warning) = told($node, 'postgres', $answers);
	is($output, '{t,t,t,t,t}|t', 'everything answers maybe');
	like($warning, qr/WARNING:  .*no longer what Bloom filter "f" was built with/, 'with a warning');
	refuses('postgres', q{bloom_add('f', 'iris')});
	is(row($node, 'postgres', $status), 'normalisation changed: nothing is denied', 'so says the status');
	# A filter that is made now follows lower() of now.
	is(row($node, 'postgres', qq{
		set client_min_messages = warning;
		select bloom_create('g', 1000, ready => true);
		select bloom_add_many('g', '{IRIS,ada}');
		select bloom_might_contain_many('g', '{IRIS,$iris,ada,iris}')}), "g\n2\n{t,t,t,f}", 'one made now');

	# Nothing was added that would now be missed.
	change_locale();
	is(row($node, 'postgres', qq{$status; $answers}), "ready\n$right", 'as before');
	is(row($node, 'postgres', q{select bloom_might_contain_many('f', '{KEN,iris}')}), '{t,f}', 'with what was added');
}

$node->stop;
$other->stop;
done_testing();
