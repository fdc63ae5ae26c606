# nfkc and username depend on ICU and on no locale: a filter that is copied into a database of another
# locale denies what it denied. Another encoding does not have them. Another ICU leaves ASCII right,
# and the rest maybe.
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
utf8::encode(my $members = '{ada,IRIS,ÅSA,раураl,modem}');
utf8::encode(my $others = '{ＡＤＡ,iris,åsa,РАУРАL,Modem}');
utf8::encode(my $absent = 'ångström');
utf8::encode(my $asa = 'åsa');
my $alike = '{paypal,modern}';
$node->safe_psql('postgres', qq{
create extension bloomfilter;
select bloom_create('by_nfkc', 1000, normalization => 'nfkc', ready => true);
select bloom_create('by_username', 1000, normalization => 'username', ready => true);
select bloom_add_many('by_nfkc', '$members'), bloom_add_many('by_username', '$members');
create table kept as select bloom_agg(name, 100, 0.01, 'nfkc') as nfkc, bloom_agg(name, 100, 0.01, 'username') as username
	from unnest('$members'::text[]) name;
});

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

# What psql says on stderr.
sub is_refused
{
	my ($database, $sql, $error, $name) = @_;
	return like((told($database, $sql))[1], $error, "$database: $name");
}

# Every member is found, however it is written; what is absent is denied.
sub answers_all
{
	my ($database) = @_;
	is_told($database, qq{select bloom_might_contain_many('by_nfkc', '$members'),
		bloom_might_contain_many('by_nfkc', '$others'), bloom_might_contain('by_nfkc', '$absent'),
		bloom_might_contain_many('by_nfkc', '$alike'), bloom_might_contain('by_nfkc', 'nobody')},
		'{t,t,t,t,t}|{t,t,t,t,t}|f|{f,f}|f', 'nfkc');
	is_told($database, qq{select bloom_might_contain_many('by_username', '$members'),
		bloom_might_contain_many('by_username', '$others'), bloom_might_contain('by_username', '$absent'),
		bloom_might_contain_many('by_username', '$alike'), bloom_might_contain('by_username', 'nobody')},
		'{t,t,t,t,t}|{t,t,t,t,t}|f|{t,t}|f', 'username');
	is_told($database, qq{select bool_and(nfkc @> name and username @> name), bool_or(nfkc @> '$absent'),
		bool_or(username @> '$absent'), bool_and(username @> 'paypal'), bool_or(nfkc @> 'paypal')
		from kept, unnest('$members'::text[] || '$others'::text[]) name}, 't|f|f|t|f', 'values');
	return;
}
answers_all('postgres');

my $dump = PostgreSQL::Test::Utils::tempdir() . '/f.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');

# A copy of the filters in a new database.
sub restore_into
{
	my ($database, $options) = @_;
	$node->safe_psql('postgres', "create database $database template template0 $options");
	$node->command_ok(
		[ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr($database) ],
		"restored into $database");
	return;
}

# Databases of other locales. In a Turkish one, "lower" builds no values.
my $has_icu = $node->safe_psql('postgres', q{select 1 from pg_collation where collprovider = 'i' limit 1});
my %locales = (c_utf8 => q{locale 'C.UTF-8'});
$locales{turkish} = q{locale 'C' locale_provider icu icu_locale 'tr'} if $has_icu;
for my $database (sort keys %locales)
{
	restore_into($database, "encoding UTF8 $locales{$database}");
	is_told($database, q{select bloom_resume('by_nfkc'), bloom_resume('by_username')}, '|', 'resumed');
	answers_all($database);
	is_told($database, q{select status, note from bloom_filters order by filter::text}, "ready|\nready|",
		'ready, and nothing to note');
	is_told($database, q{select bloom_add('by_nfkc', 'ISTANBUL'), bloom_might_contain('by_nfkc', 'istanbul'),
		bloom_empty(100, 0.01, 'nfkc') + 'IRIS' @> 'iris', bloom_empty(100, 0.01, 'username') + 'IRIS' @> 'iris',
		(select nfkc | bloom_agg('x', 100, 0.01, 'nfkc') from kept group by nfkc) @> 'X'}, 't|t|t|t|t', 'takes names');
	is_told($database, q{call bloom_rebuild('by_username', $$select unnest('{IRIS,modem}'::text[])$$,
		grace => '0', min_share => 0); select bloom_might_contain_many('by_username', '{iris,Modern,ada}')},
		'{t,t,f}', 'rebuilt');
}

# Another encoding: nothing is made there. What came there answers for ASCII, at most.
for my $encoding (qw(LATIN1 SQL_ASCII))
{
	my $database = lc $encoding;
	restore_into($database, "encoding $encoding locale 'C'");
	for my $normalization (qw(nfkc username))
	{
		my $filter = "by_$normalization";
		my $unavailable = qr/ERROR:  0A000: normalization "$normalization" is not available in encoding "$encoding"\n.*HINT:/s;
		is_refused($database, $_, $unavailable, $_) for (
			"select bloom_create('g', 1000, normalization => '$normalization')",
			"select bloom_empty(100, 0.01, '$normalization')",
			"select bloom_agg('ada', 100, 0.01, '$normalization')",
			"select bloom_normalize('ada', '$normalization')",
			"call bloom_rebuild('$filter', \$\$select 'ada'\$\$)");
		is_told($database, "select $normalization @> 'IRIS', $normalization @> 'nobody', $normalization @> '$asa' from kept",
			't|f|t', "a value of $normalization knows ASCII");
		is_refused($database, "begin; select bloom_resume('$filter'); rollback",
			qr/WARNING:  01000: Bloom filter "$filter" is ready for ASCII names only/, "$filter can be resumed for ASCII");
		is_refused($database, "select bloom_add('$filter', '$asa')", qr/ERROR:  55000: cannot add/, 'no other names');
		is_told($database, "select bloom_add('$filter', 'KEN'); select bloom_suspend('$filter');
			select bloom_add('$filter', '$asa'), bloom_add_many('$filter', '{$asa,ken}');
			select bloom_might_contain('$filter', '$asa'), bloom_might_contain('$filter', 'nobody')",
			"f\n\nf|0\nt|t", "$filter takes all, once suspended");
	}
}

# A filter, and a value, as another ICU would have made them: its stamp and its canaries differ.
sub made_by_other_icu
{
	my ($filter, $canaries) = @_;
	my $definition = $node->safe_psql('postgres', qq{select pg_get_triggerdef(oid) from pg_trigger
		where tgrelid = '$filter'::regclass and tgname = 'bloom_filter'});
	$definition =~ s/CREATE TRIGGER/CREATE OR REPLACE TRIGGER/;
	$definition =~ s/stamp=[^']*/stamp=UTF8 ICU 1.0, Unicode 1.0, data 1.0/;
	$definition =~ s/\b($canaries)=[0-9a-f]+/$1=00000001/g;
	$node->safe_psql('postgres', "$definition; alter table $filter enable always trigger bloom_filter");
	return;
}
for my $filter (qw(by_nfkc by_username))
{
	my $normalization = substr $filter, 3;
	made_by_other_icu($filter, 'canary');
	is_told('postgres', "select bloom_might_contain('$filter', 'ADA'), bloom_might_contain('$filter', 'nobody')", 't|f',
		"$filter: ASCII answers");
	# The look-alike that was added is found by its ASCII key: that was stored, and has not changed.
	is_told('postgres', q{select bloom_might_contain('by_username', 'paypal')}, 't', 'as do look-alikes')
	  if $normalization eq 'username';
	my ($output, $warning) = told('postgres',
		"select bloom_might_contain('$filter', '$asa'); select bloom_might_contain('$filter', '$absent')");
	is($output, "t\nt", "$filter: others are maybe");
	my @warnings = $warning =~
	  /WARNING:  01000: normalization "$normalization" has changed since .*\nDETAIL:  The filter was built with "UTF8 ICU 1.0, .*this server has "UTF8 ICU \d/g;
	is(scalar @warnings, 1, "$filter: one warning a session") or diag $warning;
	is_refused('postgres', "select bloom_add('$filter', '$asa')", qr/ERROR:  55000: cannot add/, "$filter: only ASCII is added");
	is_told('postgres', "select bloom_add('$filter', 'KEN'), bloom_might_contain('$filter', 'ken')", 't|t', "$filter: and found");
	is_told('postgres', "select status, advice like 'call bloom_rebuild%' from bloom_filters where filter = '$filter'::regclass",
		'normalization changed: only ASCII is denied|t', "$filter: the status");
	is_refused('postgres', "begin; select bloom_resume('$filter'); rollback",
		qr/WARNING:  01000: Bloom filter "$filter" is ready for ASCII names only/, "$filter: resumed for ASCII");
	is_told('postgres', "begin; select bloom_resume('$filter'); select bloom_add('$filter', '$absent'),
		bloom_might_contain_many('$filter', '{ADA,nobody,$absent}'); rollback", "\nf|{t,f,t}", "$filter: and takes all names");
	# ASCII itself, of which the canary is another one.
	made_by_other_icu($filter, 'canary_ascii|canary');
	is_told('postgres', "select bloom_might_contain('$filter', 'nobody')", 't', "$filter: nothing is denied");
	is_refused('postgres', "select bloom_add('$filter', 'lea')", qr/ERROR:  55000: cannot add/, "$filter: nothing is added");
	is_told('postgres', "call bloom_rebuild('$filter', \$\$select unnest('$members'::text[])\$\$, grace => '0', min_share => 0);
		select status from bloom_filters where filter = '$filter'::regclass", 'ready', "$filter: rebuilt");
	is_told('postgres', qq{with other as (select set_byte($normalization\::bytea, 8, 1)::bloomfilter v from kept)
		select v @> 'ADA', v @> 'nobody', v @> '$asa', v @> '$absent', v + 'ken' @> 'KEN' from other}, 't|f|t|t|t',
		"a value of $normalization too");
	is_refused('postgres', "select set_byte($normalization\::bytea, 8, 1)::bloomfilter + '$asa' from kept",
		qr/ERROR:  55000: cannot add .* to a bloomfilter value/, "which takes ASCII only");
	is_refused('postgres', "select set_byte($normalization\::bytea, 8, 1)::bloomfilter | $normalization from kept",
		qr/ERROR:  55000: cannot combine bloomfilter values of different normalization/, 'and no other');
}
answers_all('postgres');

$node->stop;
done_testing();
