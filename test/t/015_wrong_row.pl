# A row that is found through the index is asked for its number: on pages whose line pointers are
# exchanged a name's chunk must not be read, nor set, in another chunk's row.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C', '--no-sync' ]);
$node->start;
$node->safe_psql('postgres', q{
create extension bloomfilter;
select bloom_create('f', 1e6, source => $$select 'n' || i from generate_series(1, 3000) i$$,
                    chunks => 200),
       bloom_create('g', 1000, source => $$select 'n' || i from generate_series(1, 100) i$$);
create function answers(filter regclass, out answer text, out names bigint) returns setof record
language plpgsql as $$
declare
    tally jsonb := '{}';
    one text;
begin
    for i in 1..3000 loop
        begin
            one := bloom_might_contain(filter, 'n' || i);
        exception when others then
            one := sqlstate || ' ' || substring(sqlerrm from '^\D*');
        end;
        tally := jsonb_set(tally, array[one], to_jsonb(coalesce((tally ->> one)::int, 0) + 1));
    end loop;
    return query select key, value::bigint from jsonb_each_text(tally) order by 1;
end $$;
});
my %file = map { $_ => $node->data_dir . '/'
		  . $node->safe_psql('postgres', "select pg_relation_filepath('$_')") } qw(f g);
is($node->safe_psql('postgres', q{select * from answers('f')}), 'true|3000', 'as it was made');
$node->stop;
# From PostgreSQL 18 on there are checksums by default, which would see it first.
PostgreSQL::Test::Utils::system_log('pg_checksums', '--disable', '-D', $node->data_dir);

# Exchanges the first two line pointers of a page; they follow its header of 24 bytes.
sub exchange_line_pointers
{
	my ($name, $page) = @_;
	open(my $file, '+<', $file{$name}) or die $!;
	binmode $file;
	seek($file, 8192 * $page + 24, 0) or die $!;
	read($file, my $pointers, 8) == 8 or die 'no page';
	seek($file, 8192 * $page + 24, 0) or die $!;
	print $file substr($pointers, 4, 4) . substr($pointers, 0, 4);
	close $file or die $!;
}

exchange_line_pointers('f', $_) for 3 .. 12;
# Chunks 126 and 127 are all that is on its last page.
exchange_line_pointers('g', 21);
$node->start;

# Ten pages of six chunks each, two of which are exchanged: a tenth of the names.
my $answers = $node->safe_psql('postgres', q{select * from answers('f')});
like($answers,
	qr/^XX001 index "f_pkey" of Bloom filter "f" has a wrong row for chunk \|(\d+)\ntrue\|(\d+)$/,
	'nobody is denied');
like($answers, qr/chunk \|(2[5-9]\d|3[0-4]\d)\n/, 'those of the exchanged rows are an error');

my $chunk = 18;
my $name = $node->safe_psql('postgres',
	"select 'm' || i from generate_series(1, 100000) i where bloom_chunk('m' || i, 200) = $chunk limit 1");
my ($status, $output, $error) = $node->psql('postgres', "select bloom_add('f', '$name')");
is($error, qq{psql:<stdin>:1: ERROR:  index "f_pkey" of Bloom filter "f" has a wrong row for chunk 18
DETAIL:  The index entry leads to the row of chunk 19.
HINT:  Treat the answer as "maybe".  Run REINDEX.  If the table itself is damaged, rebuild the filter with bloom_rebuild.},
	'nor is anything added');
($status, $output, $error) = $node->psql('postgres', q{select bloom_might_contain('g', 'n1')});
like($error, qr/index "g_pkey" of Bloom filter "g" has a wrong row for chunk 127/,
	'the last chunk is asked for its number too');

# The rows are all there, and an index that is made anew finds them.
$node->safe_psql('postgres', 'reindex table f; reindex table g');
is($node->safe_psql('postgres', q{select * from answers('f')}), 'true|3000', 'mended');
is($node->safe_psql('postgres', q{select count(*) from generate_series(1, 100) i
where not bloom_might_contain('g', 'n' || i)}), '0', 'the other too');

$node->stop;
done_testing();
