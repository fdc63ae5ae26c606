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
