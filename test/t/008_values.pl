# Values of type bloomfilter on their way: dumped and restored, with all that hangs on their operators
# and under an empty search_path; copied as text and in binary; replicated.
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @utf8 = (extra => [ '--encoding=UTF8', '--locale=C' ]);
my $node = PostgreSQL::Test::Cluster->new('here');
$node->init(allows_streaming => 'logical', @utf8);
$node->start;
my $other = PostgreSQL::Test::Cluster->new('there');
$other->init(allows_streaming => 'logical', @utf8);
$other->start;
my $folder = PostgreSQL::Test::Utils::tempdir();

my $path = 'set search_path = public, "Bloom ext"';
$node->safe_psql('postgres', qq{
create schema "Bloom ext";
create extension bloomfilter schema "Bloom ext";
$path;
create domain members as bloomfilter check (value is null or value @> 'root');
create table kept (
	id int primary key,
	v bloomfilter not null default bloom_empty(100) + 'default' check (v @> 'root' or v = v | v),
	list bloomfilter[],
	must members,
	name text,
	known boolean generated always as (v @> name) stored);
create index on kept ((v @> 'n1')) where v <> bloom_empty(5);
create index on kept using hash (v);
create view with_n1 as select id from kept where v @> 'n1' or 'n1' <@ v;
create materialized view all_of_them as select bloom_union_agg(v | v) v from kept;
insert into kept (id, v, list, must, name)
select i, bloom_empty(100) + ('n' || i), array[bloom_empty(5), bloom_empty(5000) + 'l'],
	bloom_empty(5) + 'root', 'n' || i % 3
from generate_series(1, 20) i;
-- Out of line.
insert into kept (id, v) select 0, bloom_agg_chunks('n' || i, 300, 'lower') from generate_series(1, 50000) i;
create materialized view large as select v from kept where id = 0;
});
$node->safe_psql('postgres', qq{$path; refresh materialized view large});

my $digest = q{select count(*), md5(string_agg(k::text, ',' order by id)) from kept k};
my $answers = q{select (select string_agg(id::text, ',' order by id) from with_n1),
	(select v @> 'n50000' and not v @> 'nobody' from kept where id = 0),
	(select string_agg(id::text, ',' order by id) from kept where known),
	(select v @> 'n17' from large)};

sub ask
{
	my ($of, $database, $sql) = @_;
	return $of->safe_psql($database, "$path; $sql");
}
my $whole = ask($node, 'postgres', $digest);
my $right = ask($node, 'postgres', $answers);
like($right, qr/^0,1\|t\|1,2\|t$/, 'as made');

# materialized view all_of_them unites values of another shape when row 0 is there, so it is dumped
# unpopulated if at all.
$node->safe_psql('postgres', qq{$path; refresh materialized view all_of_them with no data});

for my $format ('plain', 'custom')
{
	my $file = "$folder/$format";
	$node->command_ok(
		[ 'pg_dump', '-F', substr($format, 0, 1), '-f', $file, $node->connstr('postgres') ],
		"pg_dump, $format");
	$other->safe_psql('postgres', "create database $format template template0");
	my $target = $other->connstr($format);
	$other->command_ok(
		$format eq 'plain'
		? [ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', $file, '-d', $target ]
		: [ 'pg_restore', '--exit-on-error', '-j2', '-d', $target, $file ],
		'restored');
	is(ask($other, $format, $digest), $whole, 'every value the same');
	is(ask($other, $format, $answers), $right, 'and every answer');
	is($other->safe_psql($format, q{set search_path = ''; select id from public.with_n1 order by id limit 1}),
		'0', 'an empty search_path');
	like(($other->psql($format, "$path; insert into kept (id, must) values (99, bloom_empty(5))"))[2],
		qr/violates check constraint/, 'constraints hold');
}

# COPY, as text and in binary; bytes that are no value are refused on either way.
for my $format ('text', 'binary')
{
	my $file = "$folder/copy.$format";
	ask($node, 'postgres', qq{copy (select id, v from kept) to '$file' (format $format);
		drop table if exists copied;
		create table copied (id int, v bloomfilter);
		copy copied from '$file' (format $format)});
	is(ask($node, 'postgres', q{select count(*) from kept join copied using (id, v)}), '21', "COPY, $format");
	my %bad = (
		q{set_byte(v::bytea, 3, 77)} => 'Its normalization is not known',
		q{set_byte(v::bytea, 3, 1 - get_byte(v::bytea, 3))} => 'Its canary does not belong to its normalization');
	while (my ($bytes, $reason) = each %bad)
	{
		ask($node, 'postgres', qq{copy (select id, $bytes from kept where id = 3) to '$file.bad' (format $format)});
		like(($node->psql('postgres', qq{$path; copy copied from '$file.bad' (format $format)}))[2],
			qr/invalid bloomfilter value\nDETAIL:  $reason/, "validated: $reason");
	}
}

# Logical replication of a column, out of line as well.
$node->safe_psql('postgres', qq{$path; create publication p for table kept});
$other->safe_psql('plain', qq{$path; truncate kept});
my $connection = $node->connstr . ' dbname=postgres';
$other->safe_psql('plain', "create subscription s connection '$connection' publication p");
$other->wait_for_subscription_sync($node, 's');
is(ask($other, 'plain', $digest), $whole, 'copied by a subscription');
ask($node, 'postgres', q{update kept set v = v + 'more' where id in (0, 7);
	update kept set name = 'n7' where id = 7; update kept set name = 'more' where id = 0});
$node->wait_for_catchup('s');
is(ask($other, 'plain', $digest), ask($node, 'postgres', $digest), 'and replicated');
is(ask($other, 'plain', q{select string_agg(id::text, ',' order by id) from kept where v @> 'more'}), '0,7',
	'with what was added');
$other->safe_psql('plain', 'drop subscription s');

$node->stop;
$other->stop;
done_testing();
