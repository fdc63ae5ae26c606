# Where a database lowers another way than when names were added, names that may be meant another
# way are not denied, and not added: in a copy of another encoding, and where the locale changes
# under a database.
use strict;
use warnings;
use utf8;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->start;
$ENV{PGCLIENTENCODING} = 'UTF8';
utf8::encode(my $members = '{ada,LIV,Åsa,Željko}');
utf8::encode(my $asa = 'åsa');
utf8::encode(my $iris = 'ırıs');
$node->safe_psql('postgres', qq{
create extension bloomfilter;
select bloom_create('f', 1000, ready => true);
select bloom_add_many('f', '$members');
create table kept as select bloom_agg(name, 100, 0.01, 'lower') v from unnest('$members'::text[]) name;
});
my $answers = qq{select bloom_might_contain_many('f', '$members'),
bloom_might_contain('f', 'nobody')};
my $status = q{select status from bloom_filters where filter = 'f'::regclass};

# The result of a query, and what psql says on stderr.
sub told
{
	my ($database, $sql) = @_;
	my (undef, $output, $error) =
	  $node->psql($database, $sql, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	return ($output, $error);
}

sub is_told
{
	my ($database, $sql, $expected, $name) = @_;
	return is((told($database, $sql))[0], $expected, "$database: $name");
}

# Whether making and adopting filters is told that only ASCII is folded, and bloom_info says so.
my $told_ascii = qr/NOTICE:  00000: normalization "lower" of Bloom filter "\w+" folds ASCII letters only/;
sub folds_ascii_only
{
	my ($database, $only) = @_;
	my ($output, $notices) = told($database, q{
begin;
create extension if not exists bloomfilter;
select bloom_create('by_hand', 1000, ready => true);
drop trigger bloom_filter on by_hand; drop trigger bloom_filter_truncate on by_hand;
select bloom_register('by_hand', 'lower');
select bloom_create('as_it_is', 1000, normalization => 'none', ready => true);
select note from bloom_info('by_hand') union all select note from bloom_info('as_it_is')
union all select note from bloom_filters where filter = 'by_hand'::regclass;
rollback});
	my @notices = $notices =~ /$told_ascii/g;
	is(scalar @notices, $only ? 2 : 0, "$database: notices of bloom_create and bloom_register");
	my $note = $only ? 'folds ASCII letters only' : '';
	is($output, "by_hand\n\nas_it_is\n$note\n\n$note", "$database: the note");
	return;
}
folds_ascii_only('postgres', 1);

sub does_not_add
{
	my ($database, $call) = @_;
	like((told($database, "select $call"))[1],
		qr/ERROR:  55000: cannot add .*\nDETAIL:  Normalization "lower" has changed .*\nHINT:  Call bloom_suspend/,
		"$database: no $call");
	return;
}

sub does_not_resume
{
	my ($database) = @_;
	like((told($database, q{select bloom_resume('f')}))[1],
		qr/ERROR:  55000: cannot resume Bloom filter "f"/, "$database: cannot be resumed");
	return;
}

# A copy in another encoding can never be trusted. Once it is suspended it takes every name, until
# the filter is made anew.
my $dump = PostgreSQL::Test::Utils::tempdir() . '/f.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
for my $encoding (qw(LATIN1 SQL_ASCII))
{
	my $database = lc $encoding;
	$node->safe_psql('postgres',
		"create database $database template template0 encoding $encoding locale 'C'");
	$node->command_ok(
		[ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr($database) ],
		"restored into $database");
	folds_ascii_only($database, 1) if $encoding eq 'LATIN1';
	is_told($database, "select bloom_might_contain_many('f', '{ada,$asa,nobody}')", '{t,t,t}',
		'every check answers maybe');
	is_told($database, "select v @> 'ADA', v @> 'nobody', v @> '${asa}x' from kept", 't|f|t',
		'a value knows ASCII');
	is_told($database, q{select bloom_add('f', 'KEN')}, 'f', 'ASCII is added');
	does_not_add($database, "bloom_add('f', '$asa')");
	does_not_add($database, "bloom_add_many('f', '{iris,$asa}')");
	does_not_resume($database);
	is_told($database, qq{select bloom_suspend('f'); select bloom_add('f', '$asa')}, "\nf",
		'everything is, once suspended');
	is_told($database, "select bloom_might_contain('f', '$asa')", 't', 'maybe');
	does_not_resume($database);
}

# What an upgrade of ICU or of the C library does to a database, in short.
sub change_locale
{
	my ($locale) = @_;
	my ($provider, $name) = $locale ? ("'i'", "'$locale'") : ("'c'", 'null');
	my $column = $node->safe_psql('template1', q{select attname from pg_attribute
		where attrelid = 'pg_database'::regclass and attname in ('datlocale', 'daticulocale')});
	$node->safe_psql('template1', "update pg_database
		set datlocprovider = $provider, $column = $name where datname = 'postgres'");
	return;
}

SKIP:
{
	skip 'the server has no ICU', 1
	  unless $node->safe_psql('postgres', q{select 1 from pg_collation where collprovider = 'i' limit 1});

	$node->safe_psql('postgres', q{create database latin1_icu template template0 encoding LATIN1
		locale 'C' locale_provider icu icu_locale 'en'});
	folds_ascii_only('latin1_icu', 0);

	# ASCII is lowered as before.
	change_locale('en');
	folds_ascii_only('postgres', 0);
	is_told('postgres', q{select bloom_might_contain_many('f', '{ada,LIV,nobody}')}, '{t,t,f}',
		'ASCII answers');
	is_told('postgres', q{select bloom_add('f', 'KEN'), bloom_might_contain('f', 'ken')}, 't|t',
		'and is added');
	my ($output, $warning) = told('postgres',
		"select bloom_might_contain('f', '$asa'); select bloom_might_contain('f', '${asa}x')");
	is($output, "t\nt", 'other names answer maybe');
	my @warnings = $warning =~ /WARNING:  .*"lower" has changed since Bloom filter "f" was/g;
	is(scalar @warnings, 1, 'with one warning a session');
	does_not_add('postgres', "bloom_add('f', '$asa')");
	does_not_add('postgres', "bloom_add_many('f', '{iris,$asa}')");
	is_told('postgres', q{select bloom_might_contain('f', 'iris')}, 'f', 'all or nothing');
	is_told('postgres', $status, 'normalization changed: only ASCII is denied', 'the status');
	does_not_resume('postgres');

	is_told('postgres', qq{select v @> 'ADA', v @> 'nobody', v @> '$asa', v @> '${asa}x',
		v + 'ken' @> 'KEN' from kept}, 't|f|t|t|t', 'so does a value');
	like((told('postgres', "select v + '$asa' from kept"))[1],
		qr/ERROR:  55000: cannot add .* to a bloomfilter value/, 'which takes ASCII only');
	like((told('postgres', 'select v | bloom_empty(100) from kept'))[1],
		qr/ERROR:  55000: cannot combine bloomfilter values of different normalization/, 'and no other');

	# ASCII is lowered otherwise.
	change_locale('tr');
	is_told('postgres', q{select lower('IRIS')}, $iris, 'Turkish');
	($output, $warning) = told('postgres', $answers);
	is($output, '{t,t,t,t}|t', 'everything answers maybe');
	like($warning, qr/WARNING:  .*"lower" has changed since Bloom filter "f" was/, 'with a warning');
	does_not_add('postgres', q{bloom_add('f', 'ken')});
	is_told('postgres', $status, 'normalization changed: nothing is denied', 'the status');
	does_not_resume('postgres');

	# A value too: it was built where ASCII is lowered plainly, and none is built here.
	is_told('postgres', q{select v @> 'nobody', v @> 'ADA' from kept}, 't|t', 'nor does a value deny');
	like((told('postgres', q{select v + 'ken' from kept}))[1],
		qr/ERROR:  55000: cannot add "ken" to a bloomfilter value/, 'or take adds');
	for my $sql (q{bloom_empty(100)}, q{bloom_agg('ada', 100, 0.01, 'lower')},
		q{bloom_agg_chunks('ada', 100, 'lower')})
	{
		like((told('postgres', "select $sql"))[1],
			qr/ERROR:  0A000: this database cannot build bloomfilter values with normalization "lower"/, $sql);
	}
	is_told('postgres', q{select bloom_empty(100, 0.01, 'none') + 'IRIS' @> 'IRIS'}, 't', 'but with "none"');

	# A filter that is made now follows lower() of now.
	is_told('postgres', qq{
		select bloom_create('g', 1000, ready => true);
		select bloom_add_many('g', '{IRIS,ada}');
		select bloom_might_contain_many('g', '{IRIS,$iris,ada,iris}')},
		"g\n2\n{t,t,t,f}", 'one made now');

	# Nothing was added that would now be missed.
	change_locale();
	is_told('postgres', "$status; $answers", "ready\n{t,t,t,t}|f", 'as before');
	is_told('postgres', q{select bloom_might_contain_many('f', '{KEN,iris}')}, '{t,f}',
		'with what was added');
	is_told('postgres', q{select bloom_might_contain('g', 'nobody')}, 't', 'and the other is not trusted');
}

$node->stop;
done_testing();
