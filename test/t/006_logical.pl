# A filter on a subscriber that also adds by itself: what the publisher's rows lack stays, since the
# guard ORs what is replayed. What would go into the wrong chunks is refused as far as it is seen;
# names instead of chunks always go into the right ones.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @utf8 = (allows_streaming => 'logical', extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
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

# The publisher's filter cannot be seen from here: whoever says that this one is complete is told.
my ($status, $output, $told) = $subscriber->psql('postgres', q{select bloom_resume('f')});
is($status, 0, 'a filter that is subscribed to is resumed');
like($told, qr/WARNING:  a subscription writes to Bloom filter "f"
DETAIL:  If the publisher's filter does not have 128 chunks and normalization "lower" at all times, /,
	'with a warning');
($status, $output, $told) = $subscriber->psql('postgres', q{
begin;
drop trigger bloom_filter on f; drop trigger bloom_filter_truncate on f;
select bloom_register('f', 'lower');
rollback});
like($told, qr/WARNING:  a subscription writes to Bloom filter "f"/, 'so is who registers it');
like($subscriber->safe_psql('postgres', q{select note from bloom_filters}),
	qr/^subscribed to: /, 'and bloom_filters notes it');
($status, $output, $told) = $publisher->psql('postgres', q{select bloom_resume('f')});
unlike($told, qr/WARNING/, 'but not the publisher');

# Names are published, and a trigger adds them to a filter of another size: as docs/operations.md has it.
my ($feed) = slurp_file('docs/operations.md') =~ /^```sql\n(create trigger feed_filter.*?)^```/ms;
my $users = 'create table users (username text primary key);';
$publisher->safe_psql('postgres', $users . q{
insert into users select 'early' || i from generate_series(1, 100) i;
create publication names for table users});
$subscriber->safe_psql('postgres', $users . q{
select bloom_create('username_filter', 500000, ready => true);} . $feed);
$subscriber->safe_psql('postgres', qq{
create subscription names connection '$connection' publication names});
$subscriber->wait_for_subscription_sync($publisher, 'names');
$publisher->safe_psql('postgres', q{
insert into users select 'Late' || i from generate_series(1, 100) i;
update users set username = 'renamed' where username = 'early1';
});
$publisher->wait_for_catchup('names');
is($subscriber->safe_psql('postgres', q{
select chunks > 128, (select count(*) from users where bloom_might_contain('username_filter', username)),
       bloom_might_contain_many('username_filter', '{early1,late100,renamed,nobody}')
from bloom_info('username_filter')}), 't|200|{t,t,t,f}', 'the subscriber has every name');
$subscriber->safe_psql('postgres', 'drop subscription names');

# One that has been resized refuses what is replayed: it would go into the wrong chunks.
$subscriber->safe_psql('postgres', 'alter subscription s disable');
$subscriber->poll_query_until('postgres',
	q{select count(*) = 0 from pg_stat_subscription where subname = 's' and pid is not null})
  or die 'the subscription goes on';
# As an earlier version has left it, or who dropped the subscription and made it again.
my $guard = $subscriber->safe_psql('postgres', q{
select pg_get_triggerdef(oid) from pg_trigger where tgrelid = 'f'::regclass and tgname = 'bloom_filter'});
$guard =~ s/CREATE TRIGGER/CREATE OR REPLACE TRIGGER/;
$guard =~ s/updates=allowed/updates=refused/ or die $guard;
$subscriber->safe_psql('postgres', "$guard; alter table f enable always trigger bloom_filter");
$publisher->safe_psql('postgres', q{select bloom_add('f', 'wrong')});
my $from = -s $subscriber->logfile;
$subscriber->safe_psql('postgres', 'alter subscription s enable');
$subscriber->wait_for_log(qr/ERROR:  cannot update resized Bloom filter "f"/, $from);
is($subscriber->safe_psql('postgres', q{select bloom_might_contain('f', 'wrong')}), 'f',
	'nothing of it arrives');
$subscriber->safe_psql('postgres', q{select bloom_add('f', 'wrong')});
is($subscriber->safe_psql('postgres', q{select bloom_might_contain('f', 'wrong')}), 't',
	'its own adds go on');

$subscriber->safe_psql('postgres', 'drop subscription s');
$subscriber->stop;
$publisher->stop;
done_testing();
