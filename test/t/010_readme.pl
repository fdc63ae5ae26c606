# The README's quick start runs as it stands, and answers what the README says.
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $readme = slurp_file('README.md');

# The SQL blocks of the section with that heading.
sub blocks
{
	my ($heading) = @_;
	my ($section) = $readme =~ /^## \Q$heading\E\n(.*?)(?=^## |\z)/ms;
	return $section =~ /^```sql\n(.*?)^```/msg;
}

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
$node->start;

my ($quick_start) = blocks('Quick start');
is(scalar(split /\n/, $quick_start), 6, 'the quick start has six lines');
is($node->safe_psql('postgres', $quick_start),
	"username_filter\nt|f\nt|t", 'and answers what the README says');

# The recipes, in the database that the quick start left.
$node->safe_psql('postgres', 'create table shards (shard int, filter regclass);'
	  . q{insert into shards values (1, 'username_filter')});
for my $recipe (blocks('Recipes'))
{
	my ($code, $output, $error) = $node->psql('postgres', $recipe);
	is($code, 0, 'recipe runs: ' . (split /\n/, $recipe)[0]) or diag($error);
}
is($node->safe_psql('postgres', (blocks('Recipes'))[1]), '', 'the audit finds nobody');
is( $node->safe_psql(
		'postgres', q{select username_taken('GRACE'), username_taken('alan'), username_taken('bo')}),
	't|f|f',
	'the exact answer is exact');

# Values, and the program that reads one without PostgreSQL.
for my $block (blocks('A filter in a value'))
{
	my ($code, $output, $error) = $node->psql('postgres', $block);
	is($code, 0, 'values: ' . (split /\n/, $block)[0]) or diag($error);
	is($output, 't|f', 'what a reader has seen') if $block =~ /readers/;
	is($output, "t\n2", 'a value from a query') if $block =~ /snapshot/;
	like($output, qr/^all_users\n\d+\nt$/, 'a value from a table') if $block =~ /all_users/;
}
my ($program) = $readme =~ /^```cpp\n(.*?)^```/ms;
my $folder = PostgreSQL::Test::Utils::tempdir();
append_to_file("$folder/check.cpp", $program);
my ($compile) = $readme =~ /`c\+\+ (-std=c\+\+20 .*?)`/;
$compile =~ s/check\.cpp/$folder\/check.cpp -o $folder\/check -Wall -Wextra -Werror/;
command_ok([ $ENV{CXX} || 'c++', split(/ /, $compile) ], 'the program compiles');
my ($copy) = $readme =~ /^`(\\copy .*?)`/m;
$copy =~ s/taken\.bin/$folder\/taken.bin/;
$node->command_ok([ 'psql', '-Xq', '-d', $node->connstr('postgres'), '-c', $copy ], 'psql writes the file');
my ($said) = run_command([ "$folder/check", "$folder/taken.bin", 'ada', 'GRACE', 'nobody', "\xc3\x85sa" ]);
is($said, "ada: maybe\nGRACE: maybe\nnobody: definitely not\n\xc3\x85sa: ask the server", 'and the program reads it');
append_to_file("$folder/taken.bin", 'x');
is(system("$folder/check $folder/taken.bin ada") >> 8, 2, 'but not one that is damaged');

$node->stop;

# No figure stands in the README that no run printed: rows of tables as they are in
# bench/RESULTS.md, and times in the text.
my $results = slurp_file('bench/RESULTS.md');
my ($tables) = $readme =~ /^<!-- from bench\/RESULTS\.md -->\n(.*?)^<!-- end -->/ms;
my @rows = grep { /^\| / && !/^\| figure / } split /\n/, $tables;
cmp_ok(scalar @rows, '>', 5, 'the README shows figures');
is_deeply([ grep { index($results, $_) < 0 } @rows ], [], 'all of them from bench/RESULTS.md');
my @times = $readme =~ /\b(\d[\d.,]* (?:ns|µs|ms))\b/g;
is_deeply([ grep { index($results, $_) < 0 } @times ], [], 'and so are the times in its text');

done_testing();
