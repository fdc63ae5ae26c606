# A filter on a subscriber that also adds by itself: what the publisher's rows lack stays, since the
# guard ORs what is replayed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @utf8 = (allows_streaming => 'logical', extra => [ '--encoding=UTF8', '--locale=C' ]);
my $publisher = PostgreSQL::Test::Cluster->new('publisher');
$publisher->init(@utf8);
$publisher->start;
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init(@utf8);
$subscriber->start;

# All of one chunk of 128.
$publisher->safe_psql('postgres', q{
create extension bloomfilter;
select bloom_create('f', 1000, ready => true);
select bloom_add('f', 'ada');
create publication p for table f;
select pg_create_logical_replication_slot('s', 'pgoutput');
});
my $dump = PostgreSQL::Test::Utils::tempdir() . '/f.sql';
$publisher->command_ok(
	[ 'pg_dump', '-f', $dump, '--no-publications', $publisher->connstr('postgres') ], 'pg_dump');
$subscriber->command_ok(
	[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $subscriber->connstr('postgres') ],
	'the filter is there already');
$subscriber->safe_psql('postgres', q{select bloom_resume('f')});
my $connection = $publisher->connstr . ' dbname=postgres';
$subscriber->safe_psql('postgres', qq{
create subscription s connection '$connection' publication p
with (copy_data = false, create_slot = false)});

sub maybes
{
	my ($node) = @_;
	return $node->safe_psql('postgres',
		q{select bloom_might_contain_many('f', '{ada,liv,lena,nobody}')});
}
is(maybes($subscriber), '{t,f,f,f}', 'as dumped');

$subscriber->safe_psql('postgres', q{select bloom_add('f', 'liv')});
$publisher->safe_psql('postgres', q{select bloom_add('f', 'lena')});
$publisher->wait_for_catchup('s');
is(maybes($publisher), '{t,f,t,f}', 'the publisher has its own names');
is(maybes($subscriber), '{t,t,t,f}', 'the subscriber has both');

# The article's plain UPDATE is replayed the same way.
$publisher->safe_psql('postgres', q{
update f set bits = bits | mask from username_bits('rolf', 128) u where f.chunk = u.chunk;
update f set bits = bits | mask from username_bits('liv', 128) u where f.chunk = u.chunk;
});
$publisher->wait_for_catchup('s');
is(maybes($subscriber), '{t,t,t,f}', 'still');
is($subscriber->safe_psql('postgres', q{select bloom_might_contain('f', 'rolf')}), 't', 'and more');

# Many on both sides, while others are still under way: all take rows in the same order, the
# subscription too.
my $add = q{select bloom_add_many('f', array(select '%s' || i from generate_series(1, 500) i))};
$subscriber->safe_psql('postgres', sprintf $add, 'local');
$publisher->safe_psql('postgres', sprintf $add, 'remote');
$subscriber->safe_psql('postgres', sprintf $add, 'later');
$publisher->wait_for_catchup('s');
is($subscriber->safe_psql('postgres', q{
select count(*) from generate_series(1, 500) i, unnest(array['local', 'remote', 'later']) prefix
where not bloom_might_contain('f', prefix || i)}), '0', 'nobody is denied');
is(maybes($subscriber), '{t,t,t,f}', 'and nobody is there who is not');
ok(!$subscriber->log_contains('ERROR'), 'no error on the way');

$subscriber->safe_psql('postgres', 'drop subscription s');
$subscriber->stop;
$publisher->stop;
done_testing();
