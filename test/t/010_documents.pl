# The README and the pages in docs/ say what is so. Their SQL and shell blocks run as they stand, in
# order, in one database for each page, and print what the page shows. Their figures are from
# bench/RESULTS.md, their links lead somewhere, and the reference has every SQL object.
#
# How a page says what a block is: ```sql is pasted into psql, ```sh into a shell, and ```text
# right behind one of them is what that prints. A ```cpp block whose first line is a comment with
# a file's name is that file. A line <!-- not run: why --> right before a block keeps it from being
# run. All other blocks are fragments.
use strict;
use warnings FATAL => 'all';
use Cwd;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = getcwd();
my @pages = map { "docs/$_.md" } qw(operations recipes reference layout format sharding);
my %text = map { $_ => slurp_file($_) } 'README.md', @pages;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
$node->start;

# The blocks of a page, in order. Each is a hash: the language, the text, the number of its first
# line, and whether it is not to be run. What a block prints is its output, and no block.
sub blocks
{
	my ($page) = @_;
	my (@blocks, $open);
	my ($number, $before, $gap) = (0, '', 0);
	for my $line (split /^/, $text{$page})
	{
		++$number;
		if ($line =~ /^```(\w*)\n/)
		{
			my $language = $1;
			if ($open)
			{
				if ($open->{language} eq 'text' && $gap) { $blocks[-1]{output} = $open->{text} }
				else { push @blocks, $open }
				($open, $gap) = (undef, 1);
			}
			else
			{
				my $skip = $before =~ /^<!-- not run: .* -->$/;
				$open = { language => $language, text => '', line => $number + 1, skip => $skip };
			}
		}
		elsif ($open) { $open->{text} .= $line }
		elsif ($line =~ /\S/) { $gap = 0 }
		$before = $line;
	}
	die "$page: a block has no end" if $open;
	return @blocks;
}

# Text without the spaces that psql leaves at the end of lines.
sub trimmed
{
	my ($lines) = @_;
	$lines =~ s/[ \t]+$//mg;
	# to psql before 18 a zero-width space is as wide as any
	$lines =~ s/ +\|/ |/g if $lines =~ /\xe2\x80\x8b/;
	$lines =~ s/\s+\z/\n/;
	return $lines;
}

# Gives a program the text on its standard input, in the page's folder and database.
sub run_block
{
	my ($folder, $database, $input, @command) = @_;
	local %ENV = (
		%ENV, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => $database,
		PGCLIENTENCODING => 'UTF8');
	my ($output, $error) = ('', '');
	chdir $folder or die $!;
	my $ran = IPC::Run::run(\@command, '<', \$input, '>', \$output, '2>', \$error);
	chdir $root or die $!;
	return ($ran, $output, $error);
}

# Runs what a page has to run.
sub follow
{
	my ($page) = @_;
	my ($database) = lc($page) =~ /(\w+)\.md$/;
	my $folder = PostgreSQL::Test::Utils::tempdir();
	symlink "$root/include", "$folder/include" or die $!;
	$node->safe_psql('postgres', "create database $database");
	my %command = (
		sql => [ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1' ],
		sh => [ 'bash', '-eu', '-o', 'pipefail' ]);
	my $runs = 0;
	for my $block (blocks($page))
	{
		my ($language, $input) = @$block{qw(language text)};
		if ($language eq 'cpp' && $input =~ m{^// (\w+\.cpp)\n})
		{
			append_to_file("$folder/$1", $input);
		}
		next if $block->{skip} || !$command{$language};
		++$runs;
		my $name = "$page, line $block->{line}";
		my ($ran, $output, $error) = run_block($folder, $database, $input, @{ $command{$language} });
		ok($ran, "$name runs") or diag($error);
		is(trimmed($output), trimmed($block->{output}), "$name prints what it says")
		  if defined $block->{output};
	}
	cmp_ok($runs, '>', 0, "$page has something to run");
}

follow($_) for 'README.md', @pages;

# A reader of values does not read one that is damaged.
my ($program) = map { $_->{text} } grep { $_->{language} eq 'cpp' } blocks('docs/format.md');
my $folder = PostgreSQL::Test::Utils::tempdir();
append_to_file("$folder/check.cpp", $program);
command_ok(
	[ $ENV{CXX} || 'c++', '-std=c++20', '-Iinclude', '-Wall', '-Wextra', '-Werror', '-o',
		"$folder/check", "$folder/check.cpp", '-lcrypto' ],
	'the program compiles without a warning');
$node->safe_psql('format', "copy (select taken::bytea from snapshot) to '$folder/taken.bin' with binary");
my ($said) = run_command([ "$folder/check", "$folder/taken.bin", 'ADA' ]);
is($said, 'ADA: maybe', 'and reads a value');
append_to_file("$folder/taken.bin", 'x');
is(system("$folder/check $folder/taken.bin ada") >> 8, 2, 'but not one that is damaged');

# What bloom_filters may say: each text of the page's tables is in the source.
my $source = join '', map { slurp_file($_) } glob 'src/*.cpp src/*.hpp';
$source =~ s/"\s*\n\s*"//g;
$source =~ s/\\"/"/g;
for my $heading ('### Status', '#### Unusable', '### Note')
{
	my ($section) = $text{'docs/operations.md'} =~ /^\Q$heading\E\n(.*?)(?=^##)/ms;
	my @rows = $section =~ /^\| (.*?) \| .*\|$/mg;
	my @said = map { s/^`(.*)`$/$1/r } grep { !/^`?(?:status|advice|note)`?$|^The rest|^anything/ } @rows;
	cmp_ok(scalar @said, '>', 2, "$heading has its texts");
	for my $text (@said)
	{
		my @missing = grep { index($source, $_) < 0 } split /…/, $text;
		is_deeply(\@missing, [], "$heading: $text");
	}
}

# The reference has every object of the extension.
my $objects = $node->safe_psql('reference', q{
create extension if not exists bloomfilter;
select distinct coalesce(proname, typname, relname, oprname || ' operator') from pg_depend d
     left join pg_proc p on classid = 'pg_proc'::regclass and p.oid = objid
     left join pg_type t on classid = 'pg_type'::regclass and t.oid = objid and typtype = 'b' and typelem = 0
     left join pg_class c on classid = 'pg_class'::regclass and c.oid = objid
     left join pg_operator o on classid = 'pg_operator'::regclass and o.oid = objid
where refclassid = 'pg_extension'::regclass
  and refobjid = (select oid from pg_extension where extname = 'bloomfilter')
  and coalesce(proname, typname, relname, oprname) is not null});
my @objects = split /\n/, $objects;
cmp_ok(scalar @objects, '>', 50, 'the extension has objects');
is_deeply(
	[ grep { my $name = s/ operator$//r; $text{'docs/reference.md'} !~ /(?<!\w)\Q$name\E(?!\w)/ } @objects ],
	[], 'and docs/reference.md has all of them');

$node->stop;

# Figures: the README's table shows rows of bench/RESULTS.md, and no time stands in a text that no
# run printed. The sharding page is apart: its times are of the demonstration and of the tests, each with
# the command that prints it.
my $results = slurp_file('bench/RESULTS.md');
my ($table) = $text{'README.md'} =~ /^<!-- from bench\/RESULTS\.md -->\n(.*?)^<!-- end -->/ms;
my (undef, undef, @lines) = grep { /^\|/ } split /\n/, $table;
my @rows = map { [ (split / *\| */)[ 3, 2 ] ] } @lines;
is(scalar @rows, 10, 'the README shows ten figures');
is_deeply(
	[ map { "$_->[0]: $_->[1]" } grep { $results !~ /^\| \Q$_->[0]\E \| \Q$_->[1]\E (?:\(|\|)/m } @rows ],
	[], 'all of them from bench/RESULTS.md');
# So do the tables of the page on operations: each line is the beginning of a line there.
my @tables = $text{'docs/operations.md'} =~ /^<!-- from bench\/RESULTS\.md -->\n\|[^\n]*\n\|[^\n]*\n(.*?)^<!-- end -->/msg;
is(scalar @tables, 2, 'the page on operations shows two tables of figures');
is_deeply([ grep { index("\n$results", "\n$_") < 0 } map { split /\n/ } @tables ], [], 'from bench/RESULTS.md');
for my $page (grep { $_ ne 'docs/sharding.md' } 'README.md', @pages)
{
	my $prose = $text{$page} =~ s/^```.*?^```$//msgr;
	my @times = $prose =~ /\b(\d[\d.,]* (?:ns|µs|ms|s))\b/g;
	is_deeply([ grep { index($results, $_) < 0 } @times ], [], "the times in $page are from there");
}
cmp_ok(($text{'README.md'} =~ tr/\n//), '<=', 300, 'the README has at most 300 lines');

# Links lead to a file of the tree, and to a heading of it.
for my $page ('README.md', @pages)
{
	my ($folder) = $page =~ m{^(.*/)?};
	my $prose = $text{$page} =~ s/^```.*?^```$//msgr;
	my @broken;
	for my $link ($prose =~ /\]\(([^)\s]+)\)/g)
	{
		next if $link =~ /^https?:/;
		my ($path, $anchor) = $link =~ /^([^#]*)#?(.*)$/;
		my $file = $path eq '' ? $page : ($folder // '') . $path;
		1 while $file =~ s{[^/]+/\.\./}{};
		my @anchors = -e $file && $anchor ne '' ? headings($file) : ();
		push @broken, $link if !-e $file || ($anchor ne '' && !grep { $_ eq $anchor } @anchors);
	}
	is_deeply(\@broken, [], "the links of $page lead somewhere");
}

# The names by which links call a page's headings.
sub headings
{
	my ($file) = @_;
	my $prose = slurp_file($file) =~ s/^```.*?^```$//msgr;
	return map { lc($_) =~ s/[^\w\- ]//gr =~ tr/ /-/r } $prose =~ /^#+ (.*)$/mg;
}

done_testing();
