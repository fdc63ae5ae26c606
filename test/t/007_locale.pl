# Where a database lowers another way than when names were added, names that may be meant another
# way are not denied, and not added: in a copy in a database of another locale or encoding, and where
# the locale changes under a database.
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
		qr/ERROR:  55000: cannot add .*\nDETAIL:  Normalization "\w+" has changed .*\nHINT:  Call bloom_suspend/,
		"$database: no $call");
	return;
}

sub does_not_resume
{
	my ($database, $filter) = @_;
	like((told($database, "select bloom_resume('$filter')"))[1],
		qr/ERROR:  55000: cannot resume Bloom filter "$filter"/, "$database: $filter cannot be resumed");
	return;
}

# ---- Dumped in one locale or encoding, restored in another: two databases. A filter is suspended there. Resumed,
# it is right about ASCII and answers maybe for the rest; where ASCII is lowered otherwise, for everything.

my $has_icu = $node->safe_psql('postgres', q{select 1 from pg_collation where collprovider = 'i' limit 1});

# Makes a database, or returns false where the machine does not have its locale. Those that test/run.sh has made
# have to be there.
sub has_database
{
	my ($database, $options) = @_;
	my ($code, undef, $error) = $node->psql('postgres', "create database $database template template0 $options");
	return 1 if $code == 0;
	my $is_promised = grep { $options =~ /'\Q$_\E'/ } split ' ', $ENV{BLOOM_TEST_LOCALES} // '';
	die "$database: $error" if $is_promised || $error !~ /invalid (locale name|LC_)/;
	note "skipped: $database, since this machine has no locale for $options (test/run.sh makes it)";
	return 0;
}

# Filters and values of some names, as a user of that database has them.
sub fill
{
	my ($database, $names) = @_;
	$node->safe_psql($database, qq{
set client_min_messages = warning;
create extension bloomfilter;
create table users as select unnest('$names'::text[]) as username;
select bloom_create('by_' || n, 1000, 1e-6, n, source => 'select username from users') from unnest('{lower,none}'::text[]) n;
create table stored as select bloom_agg(username, 100, 1e-6, 'none') as filter from users;
insert into stored select bloom_agg(username, 100, 1e-6, 'lower') from users having lower('I') = 'i';
});
	return;
}

# Dumps a database and restores it into another, as text or in the custom format.
sub carry
{
	my ($from, $to, @options) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . "/$from.$to";
	$node->command_ok([ 'pg_dump', @options, '-f', $file, $node->connstr($from) ], "$from: pg_dump @options");
	my @restore = grep({ $_ eq '-Fc' } @options) ? ('pg_restore', '--exit-on-error', $file)
	  : ('psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', $file);
	$node->command_ok([ @restore, '-d', $node->connstr($to) ], "$to: restored");
	return;
}

# The answers for names whose keys may have changed, none of them a member as it is written.
sub others_of { my ($filter) = @_; return "select bloom_might_contain('$filter', '${asa}x'), bloom_might_contain('$filter', 'x$asa')"; }

# A copy is suspended: all is maybe. Names whose keys may have changed are not added, unless bloom_suspend says so.
sub is_suspended
{
	my ($database, $filter, $agreement, $names) = @_;
	is_told($database, "select status, advice like 'call bloom_rebuild%' from bloom_filters where filter = '$filter'::regclass",
		'suspended: a copy of the filter that names were added to|t', "$filter: suspended");
	is_told($database, "select bool_and(bloom_might_contain('$filter', name)) from unnest('$names'::text[] || 'nobody'::text) name",
		't', "$filter: all is maybe");
	is_told($database, "select bloom_add('$filter', 'KEN')", 'f', "$filter: ASCII is added") if $agreement ne 'none';
	does_not_add($database, "bloom_add('$filter', '$asa')") if $agreement ne 'all';
	does_not_add($database, "bloom_add_many('$filter', '{iris,$asa}')") if $agreement ne 'all';
	return;
}

# A filter whose keys have changed beyond ASCII: it can be resumed, is right about ASCII and tells why not about more.
sub is_right_about_ascii
{
	my ($database, $filter, $names) = @_;
	like((told($database, "select bloom_resume('$filter')"))[1],
		qr/WARNING:  01000: Bloom filter "$filter" is ready for ASCII names only\nDETAIL:  .*\nHINT:  Run: call bloom_rebuild/,
		"$database: $filter resumes for ASCII");
	is_told($database, "select bloom_might_contain_many('$filter', '$names'), bloom_might_contain_many('$filter', '{nobody,ad,irs}')",
		'{t,t,t,t}|{f,f,f}', "$filter: ASCII is right");
	my ($answers, $warning) = told($database, others_of($filter) . ';' . others_of($filter));
	is($answers, "t|t\nt|t", "$database: $filter: the rest is maybe");
	my @warnings = $warning =~ /WARNING:  01000: normalization "\w+" has changed since Bloom filter "$filter" was built\nDETAIL:  The filter was built with "([^"]*)", and this server has "([^"]*)"\.  Checks of names with non-ASCII characters answer maybe\./g;
	ok(@warnings == 2 && $warnings[0] ne $warnings[1], "$database: $filter: one warning a session, with both locales") or diag $warning;
	is_told($database, "select status, advice from bloom_filters where filter = '$filter'::regclass",
		"normalization changed: only ASCII is denied|call bloom_rebuild('public.$filter', '<source>')", "$filter: status and advice");
	is_told($database, "select bloom_add('$filter', 'lea'), bloom_might_contain('$filter', 'lea'),
		bloom_add('$filter', '${asa}n'), bloom_might_contain('$filter', '${asa}n')", 't|t|f|t', "$filter: all names are added");
	is_told($database, "select bloom_suspend('$filter'); select bloom_add('$filter', 'x$asa'), bloom_might_contain('$filter', 'nobody');
		select bloom_resume('$filter'); select bloom_might_contain('$filter', 'nobody'), bloom_might_contain('$filter', 'lea')",
		"\nf|t\n\nf|t", "$filter: suspended and resumed");
	return;
}

# What a copy of a filter answers, from the restore to the rebuild. `agreement` says of which names its keys are as
# they were: all, ascii, or none.
sub answers_as_copy
{
	my ($database, $filter, $agreement, $names) = @_;
	is_suspended($database, $filter, $agreement, $names);
	if ($agreement eq 'all')
	{
		is_told($database, "select bloom_resume('$filter'); " . others_of($filter), "\nf|f", "$filter: resumes for all names");
	}
	elsif ($agreement eq 'ascii') { is_right_about_ascii($database, $filter, $names); }
	else
	{
		does_not_resume($database, $filter);
		is_told($database, "select bloom_suspend('$filter'); select bloom_add('$filter', 'x$asa'), bloom_add('$filter', 'IRIS'),
			bloom_might_contain('$filter', 'nobody')", "\nf|f|t", "$filter: takes all, once suspended");
		does_not_resume($database, $filter);
	}
	my $rebuild = "call bloom_rebuild('$filter', 'select username from users', grace => '0', min_share => 0)";
	if ($filter eq 'by_lower' && $database eq 'sql_ascii')
	{
		like((told($database, $rebuild))[1], qr/ERROR:  0A000: normalization "lower" is not available in encoding "SQL_ASCII"/, "$database: no rebuild");
		return;
	}
	is_told($database, "$rebuild; " . others_of($filter) . "; select status, (select bool_and(bloom_might_contain('$filter', username)) from users)
		from bloom_filters where filter = '$filter'::regclass", "f|f\nready|t", "$filter: rebuilt, it is right");
	return;
}

# What values answer where they were restored: they are right about ASCII if it is lowered as it was.
sub values_answer
{
	my ($database, $agreements, $names) = @_;
	for my $normalization (split /\n/, $node->safe_psql($database, 'select (bloom_value_info(filter)).normalization from stored'))
	{
		my $agreement = $agreements->{$normalization};
		my ($output, $warning) = told($database, "select (select bool_and(filter @> name) from unnest('$names'::text[]) name),
			filter @> 'nobody', filter @> '${asa}x', filter @> 'x$asa' from stored where (bloom_value_info(filter)).normalization = '$normalization'");
		is($output, { all => 't|f|f|f', ascii => 't|f|t|t', none => 't|t|t|t' }->{$agreement}, "$database: a value of $normalization");
		my @warnings = $warning =~ /WARNING:  01000: normalization "$normalization" of this server differs from that of a bloomfilter value/g;
		is(scalar @warnings, $agreement eq 'all' ? 0 : 1, "$database: a warning a session") or diag $warning;
	}
	return;
}

my %databases = (
	c => q{encoding UTF8 locale 'C'},
	c_utf8 => q{encoding UTF8 locale 'C.UTF-8'},
	english => q{encoding UTF8 locale 'en_US.utf8'},
	turkish => q{encoding UTF8 locale 'tr_TR.utf8'},
	latin1 => q{encoding LATIN1 locale 'C'},
	latin1_english => q{encoding LATIN1 locale 'en_US.iso88591'},
	sql_ascii => q{encoding SQL_ASCII locale 'C'});
%databases = (%databases, icu => q{encoding UTF8 locale 'C' locale_provider icu icu_locale 'en'},
	icu_turkish => q{encoding UTF8 locale 'C' locale_provider icu icu_locale 'tr'}) if $has_icu;
utf8::encode(my $latin1_members = '{ada,LIV,Åsa,ÞÓR}');
# From, to, for which names lower() agrees, options of pg_dump. There and back.
for my $way ([ 'c', 'c_utf8', 'ascii' ], [ 'c_utf8', 'c', 'ascii', '-Fc' ], [ 'english', 'turkish', 'none' ],
	[ 'turkish', 'english', 'none', '-Fc' ], [ 'english', 'icu', 'ascii' ], [ 'icu', 'icu_turkish', 'none' ],
	[ 'english', 'latin1_english', 'ascii', '-E', 'LATIN1' ], [ 'latin1_english', 'english', 'ascii', '-Fc' ],
	[ 'c', 'latin1', 'ascii', '-Fc' ], [ 'latin1', 'c_utf8', 'ascii', '-E', 'UTF8' ], [ 'c', 'sql_ascii', 'ascii' ])
{
	my ($from, $to, $agreement, @options) = @$way;
	next unless $databases{$from} && $databases{$to};
	my ($source, $target) = ("from_$from", $to);
	if (has_database($source, $databases{$from}) && has_database($target, $databases{$to}))
	{
		my $names = "$from$to" =~ /latin1/ ? $latin1_members : $members;
		my $is_recoded = ($from =~ /latin1|ascii/ ? $& : '') ne ($to =~ /latin1|ascii/ ? $& : '');
		note "from $from to $to";
		fill($source, $names);
		carry($source, $target, @options);
		values_answer($target, { none => $is_recoded ? 'ascii' : 'all', lower => $agreement }, $names);
		answers_as_copy($target, 'by_none', $is_recoded ? 'ascii' : 'all', $names);
		answers_as_copy($target, 'by_lower', $agreement, $names);
		folds_ascii_only($target, 1) if $target eq 'latin1';
	}
	$node->safe_psql('postgres', "drop database if exists $_") for $source, $target;
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
	skip 'the server has no ICU', 1 unless $has_icu;

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
	($output, $warning) = told('postgres',
		"begin; select bloom_resume('f'); select bloom_add('f', '$asa'), bloom_might_contain('f', 'nobody'); rollback");
	is($output, "\nf|f", 'it can be resumed, and takes them');
	like($warning, qr/WARNING:  01000: Bloom filter "f" is ready for ASCII names only/, 'with a warning');

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
	does_not_resume('postgres', 'f');

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
