# A filter whose files are damaged or gone keeps no other's row out of bloom_filters.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('node');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->start;
$node->safe_psql('postgres', q{
create extension bloomfilter;
select bloom_create(name, 1000, ready => true) from unnest('{a,cut,gone,index,z}'::text[]) name;
create table other as select 1;
});
my %file = map { $_ => $node->data_dir . '/' . $node->safe_psql('postgres', "select pg_relation_filepath('$_')") }
  qw(cut gone index_pkey);
$node->stop;
truncate($file{cut}, 8192) or die "truncate: $!";
unlink($file{gone}) or die "unlink: $!";
open(my $index, '+<', $file{index_pkey}) or die "open: $!";
print $index 'x' x 24576 or die "print: $!";
close($index) or die "close: $!";
$node->start;

my $view = q{select filter, status ~ '^not readable: ', advice from bloom_filters order by filter::text};
my $rows = join("\n", 'a|f|', map({ "$_|t|select bloom_create('public.${_}_new', <capacity>, source => '<source>')" } qw(cut gone index)), 'z|f|');
is($node->safe_psql('postgres', $view), $rows, 'a row for each');
is($node->safe_psql('postgres', "begin; savepoint s; $view; release s; $view; create table t as table other; commit; select count(*) from t"),
	"$rows\n$rows\n1", 'in a transaction, which goes on');
is($node->safe_psql('postgres', 'set debug_parallel_query = on; ' x ($node->pg_version >= 16)
	  . 'set force_parallel_mode = on; ' x ($node->pg_version < 16) . $view), $rows, 'where queries are parallel');
isnt($node->psql('postgres', q{select status from bloom_info('cut')}), 0, 'one that is asked for is an error');
$node->stop;
done_testing();
