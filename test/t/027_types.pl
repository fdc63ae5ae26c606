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


my %made;
for (@databases)
{
	my ($database, $encoding, $options, $locale, $turkish, $names, $normalizations) = @$_;
	next unless make_database($database, $encoding, $options, $locale);
	my @collations = make_collations($database, $encoding, $turkish);
	check_database($database, $encoding, $names, $normalizations, @collations);
	$made{$database} = \@collations;
}

# ---- Sessions: whatever is set, a name is added and found. Functions of another schema come before the server's.
my $parallel = $version >= 160000 ? 'debug_parallel_query' : 'force_parallel_mode';
my %sessions = (
	languages => q{set datestyle = 'German, DMY'; set intervalstyle = 'sql_standard'; set timezone = 'Asia/Kathmandu';
		set extra_float_digits = -15; set bytea_output = 'escape'; set default_text_search_config = 'turkish'; set xmlbinary = hex;
		set xmloption = document},
	search_path => q{set search_path = evil, pg_catalog, public; set quote_all_identifiers = on; set array_nulls = off;
		set transform_null_equals = on; set default_transaction_isolation = 'serializable'},
	plans => qq{set $parallel = on; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0;
		set enable_seqscan = off; set enable_hashagg = off; set jit_above_cost = 0; set plan_cache_mode = force_generic_plan;
		set work_mem = '64kB'; set maintenance_work_mem = '1MB'; set from_collapse_limit = 1},
	storage => q{set session_replication_role = replica; set row_security = off; set check_function_bodies = off;
		set synchronous_commit = off; set vacuum_freeze_min_age = 0; set client_min_messages = log},
	strings => q{set standard_conforming_strings = off; set escape_string_warning = off; set backslash_quote = on});
# PostgreSQL 19 has standard strings only.
delete $sessions{strings} if $version >= 190000;
# The server writes its own numbers and dates as this locale does.
my $locale = (grep { $node->psql('postgres', "set lc_messages = '$_'") == 0 } 'tr_TR.utf8', 'de_DE.iso885915', 'C.UTF-8')[0];
$sessions{languages} .= qq{; set lc_messages = '$locale'; set lc_numeric = '$locale'; set lc_monetary = '$locale'; set lc_time = '$locale'};

# What a session of these settings makes, under names that begin with its own. A backslash is typed as its
# strings want it.
sub add_in_session
{
	my ($database, $session, $names) = @_;
	my $backslash = $session eq 'strings' ? q{\\\\} : q{\\};
	my $set = $sessions{$session} // '';
	my $filter = "session_$session";
	return $node->safe_psql($database, qq{set client_min_messages = error; $set;
		create table public.$filter\_names as select '$session' || name || '$backslash' || 'I' as name from unnest($names) name;
		select bloom_add('public.by_lower', name) from public.$filter\_names;
		select bloom_create('public.$filter', 12345.0, 0.0123456789, 'lower', source => 'select name from public.$filter\_names');
		call bloom_rebuild('public.$filter', 'select name from public.$filter\_names', grace => '0 s', min_share => 0);
		create table public.$filter\_value as select bloom_agg(name, 12345.0, 0.0123456789, 'none')::text as none from public.$filter\_names});
}

# Whether a session of these settings finds all that every session has made, and denies what nobody has added.
sub is_found
{
	my ($database, $session, $names) = @_;
	my $set = $sessions{$session} // '';
	my $backslash = $session eq 'strings' ? q{\\\\} : q{\\};
	my @all = sort keys %sessions, 'plain';
	my $sql = join ' union all ', map { my $filter = "session_$_"; qq{
		select bool_and(bloom_might_contain('public.by_lower', name) and bloom_might_contain('public.$filter', name)
			and none::bloomfilter @> name) and count(*) > 0 and bool_or(name = '$_' || 'IRIS' || '$backslash' || 'I')
			and not bool_or(bloom_might_contain('public.$filter', 'x' || name) or none::bloomfilter @> ('x' || name))
			and bool_and(bloom_might_contain_any(array['public.by_lower', 'public.$filter']::regclass[], name)
				= array['public.by_lower', 'public.$filter']::regclass[])
		from (select '$_' || name || '$backslash' || 'I' as name from unnest($names) name) n, public.$filter\_value} } @all;
	is($node->safe_psql($database, "set client_min_messages = error; $set; $sql"), join("\n", ('t') x @all),
		"$database: a session with other $session finds every name");
	return;
}

for my $database (grep { $made{$_} } qw(c turkish icu_turkish latin1))
{
	utf8::encode(my $names = $database eq 'latin1' ? q{array['IRIS', 'ÅSA']} : q{array['IRIS', 'ÅSA', 'İRİS', 'ΟΔΟΣ']});
	$node->safe_psql($database, q{create schema evil;
		create function evil.lower(text) returns text language sql immutable as 'select ''evil''::text';
		create function evil.md5(text) returns text language sql immutable as 'select ''evil''::text';
		create function evil.bloom_normalize(text, text) returns text language sql immutable as 'select ''evil''::text'});
	add_in_session($database, $_, $names) for sort keys %sessions, 'plain';
	is_found($database, $_, $names) for sort keys %sessions, 'plain';
}

# ---- The encoding of the client: the same name in other bytes
for my $database (grep { $made{$_} } qw(c turkish icu latin5))
{
	# There is no conversion between two of these.
	for my $encoding ($database eq 'latin5' ? 'LATIN5' : ('LATIN5', 'WIN1254'))
	{
		utf8::encode(my $name = 'İRİS');
		$ENV{PGCLIENTENCODING} = $encoding;
		$node->safe_psql($database, "select bloom_add('by_lower', '$encoding\xddR\xddS')");
		$ENV{PGCLIENTENCODING} = 'UTF8';
		is($node->safe_psql($database, "select bloom_might_contain('by_lower', '$encoding$name'), bloom_might_contain('by_lower', 'x$name')"),
			't|f', "$database: added in $encoding, asked for in UTF8");
	}
}

# ---- A function that sets the locale of the process, as one in an untrusted language can: it changes lower() before
# PostgreSQL 18, and changes no key
my %functions = (
	plperlu => 'use POSIX qw(setlocale LC_CTYPE); return setlocale(LC_CTYPE, $_[0]);',
	plpython3u => "import locale\nreturn locale.setlocale(locale.LC_CTYPE, args[0])");
for my $language (sort keys %functions)
{
	my ($code) = $made{english} && $made{turkish} ? $node->psql('english', "create extension $language") : 1;
	if ($code != 0)
	{
		note "not tested: the server has no $language, or the machine no locales";
		next;
	}
	my $long = 'IRIS' x 20;
	utf8::encode(my $names = "'{ÅSA,İris,IRIS,$long}'");
	$node->safe_psql('english', "create function set_$language(text) returns text language $language as \$\$$functions{$language}\$\$;
		select bloom_add_many('by_lower', $names)");
	for my $other (qw(tr_TR.utf8 C))
	{
		is($node->safe_psql('english', "select bloom_might_contain_many('by_lower', $names); select set_$language('$other');
			select bloom_might_contain_many('by_lower', $names), bloom_might_contain('by_lower', 'n' || repeat('I', 99))"),
			"{t,t,t,t}\n$other\n{t,t,t,t}|f", "$language sets $other");
		# Before the server itself has looked: it may take another locale for C then, which is an error and no "no".
		my ($result, $answer, $error) = $node->psql('english', "select set_$language('$other');
			select bloom_might_contain_many('by_lower', $names), bloom_add('by_lower', repeat('I', 99))");
		ok($result == 0 && $answer eq "$other\n{t,t,t,t}|t" || $result == 0 && $answer eq "$other\n{t,t,t,t}|f" || $error =~ /lower\(\) of this session/,
			"$language sets $other at once") or diag "$answer $error";
	}
}

# ---- Where the names are compared more loosely than the filter does, whoever can be told is told
SKIP:
{
	skip 'no nondeterministic collation', 1 unless grep { $_ eq 'loose' } @{ $made{c} };
	my (undef, undef, $told) = $node->psql('c', q{
select bloom_might_contain('by_lower', 'nobody' collate "loose"), bloom_might_contain('by_lower', 'nobody' collate "loose");
select bloom_might_contain('by_lower', 'nobody' collate "C");
create table people (name text collate "loose");
insert into people values ('José');
create table queue (name text collate "loose");
insert into queue values ('Zoë'), ('Zoë');
select bloom_create('by_people', 1000, source => 'select name from people');
select bloom_create('by_spelling', 1000, source => 'select name collate "C" from people');
select bloom_create('by_value', 1000, normalization => 'none', source => 'select bloom_agg_chunks(name, 128, ''none'') from people');
create trigger feed after insert on people for each row execute function bloom_add_trigger('public.by_people', 'name');
insert into people values ('Zoë'), ('Åsa');
insert into people values ('Ada');
select bloom_drain('by_spelling', 'queue');
call bloom_rebuild('by_people', 'select name from people', grace => '0', min_share => 0);
});
	my @told = $told =~ /(WARNING:  .*)/g;
	is_deeply(\@told, [
		'WARNING:  checks under collation "loose" answer maybe',
		'WARNING:  Bloom filter "by_people" gets names that are compared by nondeterministic collation "loose"',
		'WARNING:  Bloom filter "by_people" gets names that are compared by nondeterministic collation "loose"',
		'WARNING:  Bloom filter "by_spelling" gets names that are compared by nondeterministic collation "loose"',
		'WARNING:  Bloom filter "by_people" gets names that are compared by nondeterministic collation "loose"' ],
		'a nondeterministic collation: one warning a session and place') or diag $told;
	is($node->safe_psql('c', q{set client_min_messages = error;
		create domain loose_name as text collate "loose";
		select bloom_might_contain('by_lower', 'nobody'::loose_name), bloom_might_contain('by_lower', 'nobody' collate "C"),
			bloom_add('by_lower', 'newcomer' collate "loose"), bloom_add('by_lower', 'Newcomer2'),
			bloom_add_many('by_lower', array['newcomer3'::loose_name]), bloom_might_contain('by_lower', 'Newcomer'),
			bloom_might_contain('by_people', name), bloom_might_contain('by_people', 'nobody')
		from people where name = 'JOSE'}), 't|f|f|t|0|t|t|f', 'maybe, and by its spelling no; no name is new for sure');
}

$node->stop;
done_testing();
