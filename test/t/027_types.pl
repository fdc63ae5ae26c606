# A name that was added is never denied, as whatever type it is added and asked for, in whatever database and
# session: the matrix of test/types.sql in databases of many locales and encodings.
use strict;
use warnings;
use utf8;
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->start;
$ENV{PGCLIENTENCODING} = 'UTF8';
my $version = $node->safe_psql('postgres', 'show server_version_num');
my $has_icu = $node->safe_psql('postgres', q{select 1 from pg_collation where collprovider = 'i' limit 1});
note 'the server has no ICU' unless $has_icu;

# Names that locales fight about, one of ASCII with blanks at the end. A list for what each encoding has.
my %names = (
	unicode => '{"IRIS  ",İris,ΟΔΟΣ,ÌRIS}',
	latin1 => '{"IRIS  ",ÅSA,ÞÓR}',
	latin5 => '{"IRIS  ",İris,IŞIK}',
	japanese => '{"IRIS  ",あき,ЯНА}',
	any => '{"IRIS  ",ÅSA," "}');
my $all = '{none,lower,nfkc,username}';
my $icu = q{locale 'C' locale_provider icu icu_locale};
# name, encoding, what CREATE DATABASE is told, libc locale that this takes, Turkish collation, names, normalizations
my @databases = (
	[ 'c', 'UTF8', q{locale 'C'}, '', '', 'unicode', '{none,lower}' ],
	[ 'c_utf8', 'UTF8', q{locale 'C.UTF-8'}, 'C.UTF-8', 'tr_TR.utf8', 'unicode', '{none,lower}' ],
	[ 'english', 'UTF8', q{locale 'en_US.utf8'}, 'en_US.utf8', 'tr_TR.utf8', 'unicode', '{none,lower}' ],
	[ 'turkish', 'UTF8', q{locale 'tr_TR.utf8'}, 'tr_TR.utf8', 'tr_TR.utf8', 'unicode', $all ],
	[ 'icu', 'UTF8', "$icu 'und'", 'ICU', '', 'unicode', '{none,lower}' ],
	[ 'icu_turkish', 'UTF8', "$icu 'tr'", 'ICU', '', 'unicode', '{none,lower}' ],
	[ 'icu_lithuanian', 'UTF8', "$icu 'lt'", 'ICU', '', 'unicode', '{lower}' ],
	[ 'latin1_c', 'LATIN1', q{locale 'C'}, '', '', 'latin1', '{none,lower}' ],
	[ 'latin1', 'LATIN1', q{locale 'en_US.iso88591'}, 'en_US.iso88591', '', 'latin1', '{none,lower}' ],
	[ 'latin1_icu', 'LATIN1', "$icu 'en'", 'ICU', '', 'latin1', '{lower}' ],
	[ 'latin5', 'LATIN5', q{locale 'tr_TR.iso88599'}, 'tr_TR.iso88599', 'tr_TR.iso88599', 'latin5', '{none,lower}' ],
	[ 'latin9', 'LATIN9', q{locale 'de_DE.iso885915'}, 'de_DE.iso885915', '', 'latin1', '{lower}' ],
	[ 'win1252', 'WIN1252', q{locale 'en_US.cp1252'}, 'en_US.cp1252', '', 'latin1', '{lower}' ],
	[ 'sql_ascii', 'SQL_ASCII', q{locale 'C'}, '', '', 'any', '{none}' ],
	[ 'euc_jp', 'EUC_JP', q{locale 'ja_JP.eucjp'}, 'ja_JP.eucjp', '', 'japanese', '{none}' ]);
push @databases, [ 'builtin', 'UTF8', q{locale 'C' locale_provider builtin builtin_locale 'C.UTF-8'}, '', '', 'unicode', '{lower}' ]
  if $version >= 170000;

# Makes the database, or returns false where the machine does not have its locale. Those that test/run.sh has
# made have to be there.
sub make_database
{
	my ($database, $encoding, $options, $locale) = @_;
	return 0 if $locale eq 'ICU' && !$has_icu;
	my ($code, undef, $error) = $node->psql('postgres', "create database $database template template0 encoding $encoding $options");
	return 1 if $code == 0;
	my $is_promised = grep { $_ eq $locale } split ' ', $ENV{BLOOM_TEST_LOCALES} // '';
	ok(0, "$database is made") or diag $error
	  if $is_promised || $error !~ /invalid (locale name|LC_)/;
	note "skipped: $database, since this machine has no locale $locale (test/run.sh makes it)" unless $is_promised;
	return 0;
}

# Collations that an argument or a column may have, with "loose", which is nondeterministic.
sub make_collations
{
	my ($database, $encoding, $turkish) = @_;
	my @collations = ('C');
	my ($code) = $turkish ? $node->psql($database, "create collation turkish (provider = libc, locale = '$turkish')") : 1;
	push @collations, 'turkish' if $code == 0;
	return @collations if !$has_icu || $encoding eq 'SQL_ASCII';
	$node->safe_psql($database, q{create collation loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
		create collation icu_turkish (provider = icu, locale = 'tr')});
	return (@collations, 'loose', 'icu_turkish');
}

# Adds and asks for every name of the matrix.
sub check_database
{
	my ($database, $encoding, $names, $normalizations, @collations) = @_;
	utf8::encode(my $list = $names{$names});
	# A setting of a database is stored in the encoding of the database that it is made in.
	my %settings = (names => $list, normalizations => $normalizations, collations => '{' . join(',', @collations) . '}');
	$node->safe_psql($database, "alter database $database set types.$_ = '$settings{$_}'") for sort keys %settings;
	$node->command_ok([ 'psql', '-Xq', '-f', "$FindBin::RealBin/../types.sql", '-o', '/dev/null', '-d', $node->connstr($database) ],
		"$database: names are added as every type");
	my $told = $node->safe_psql($database, q{set client_min_messages = error;
		with answers as (
			select expression, normalization, k.type ~ '^(bp|of_)?char' as is_blind, (ask(expression, normalization)).*
			from unnest(current_setting('types.normalizations')::text[]) normalization, questions join kinds k on k.id = kind)
		select normalization, sum(asked) > 1000, string_agg(expression || ': ' || denied, E'\n'),
			-- Blanks at the end are of no matter in char(n), and make another name of every other type.
			bool_and(coalesce(other_kinds, '') = case when is_blind and normalization in ('none', 'lower')
				then (select string_agg(distinct type, ', ') from kinds where type !~ '^(bp|of_)?char') else '' end),
			ask_characters(normalization)
		from answers group by 1 order by 1});
	my @expected = map { "$_|t||t|" } sort $normalizations =~ /\w+/g;
	is($told, join("\n", @expected), "$database: and not denied as any");
	return;
}

for (@databases)
{
	my ($database, $encoding, $options, $locale, $turkish, $names, $normalizations) = @$_;
	next unless make_database($database, $encoding, $options, $locale);
	my @collations = make_collations($database, $encoding, $turkish);
	check_database($database, $encoding, $names, $normalizations, @collations);
}

$node->stop;
done_testing();
