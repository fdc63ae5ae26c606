# A promoted standby may lack the last adds of its primary: its filters answer maybe until
# bloom_resume, unless they were told to trust failovers (for synchronous standbys).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1, extra => [ '--encoding=UTF8', '--locale=C' ]);
$primary->start;
$primary->safe_psql('postgres', q{
create extension bloomfilter;
select bloom_create('f', 1000, ready => true), bloom_create('trusting', 1000, ready => true);
select bloom_resume('trusting', trust_failover => true);
select bloom_add('f', 'ada'), bloom_add('trusting', 'ada');
});
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));

my $session = $standby->background_psql('postgres', on_error_stop => 0);
my $transaction = $standby->background_psql('postgres', on_error_stop => 0);
my $check = q{select bloom_might_contain('f', 'ada'), bloom_might_contain('f', 'late'),
bloom_might_contain('trusting', 'ada'), bloom_might_contain('trusting', 'late')};
my $states = q{select filter, status, advice is not null from bloom_filters order by 1};
$transaction->query_safe('begin isolation level repeatable read');
is($_->query_safe($check), 't|f|t|f', 'before the failover') for $session, $transaction;

# An add that returns on the primary, and that the standby never gets.
$standby->append_conf('postgresql.conf', "primary_conninfo = ''");
$standby->reload;
$standby->poll_query_until('postgres', 'select count(*) = 0 from pg_stat_wal_receiver')
  or die 'the standby goes on streaming';
$primary->safe_psql('postgres', q{select bloom_add('f', 'late'), bloom_add('trusting', 'late')});
is($_->query_safe($check), 't|f|t|f', 'not on the standby yet') for $session, $transaction;
$primary->stop('immediate');
$standby->promote;

is($session->query($check), 't|t|t|f', 'a session from before it answers maybe');
like($session->{stderr}, qr/NOTICE:  checks of Bloom filter "f" answer maybe
DETAIL:  Its status is "suspended: the server failed over or was restored"\.
HINT:  Rebuild the filter with .*bloom_rebuild.*By calling bloom_resume you confirm/,
	'and is told why');
is($transaction->query($check), 't|t|t|f', 'a transaction from before it too');
my ($status, $output, $notice) = $standby->psql('postgres', $check);
is($output, 't|t|t|f', 'a new session too');
like($notice, qr/NOTICE:  checks of Bloom filter "f" answer maybe/, 'and is told why');
is($standby->safe_psql('postgres', $states), join("\n",
		'f|suspended: the server failed over or was restored|t', 'trusting|ready|f'),
	'so says the status');
is($standby->safe_psql('postgres', q{select status from bloom_info('f')}),
	'suspended: the server failed over or was restored', 'of bloom_info too');

# It goes on taking adds, without calling any name new.
is($standby->safe_psql('postgres', q{select bloom_add('f', 'liv'), bloom_add('trusting', 'liv')}),
	'f|t', 'adds go on');
$standby->restart;
($status, $output) = $standby->psql('postgres', $check);
is($output, 't|t|t|f', 'suspended after a restart');
is($standby->safe_psql('postgres', $states), join("\n",
		'f|suspended: the server failed over or was restored|t', 'trusting|ready|f'), 'still');

# Once the names that are known elsewhere are in.
$standby->safe_psql('postgres', q{select bloom_add('f', 'late'); select bloom_resume('f')});
is($standby->safe_psql('postgres', $check), 't|t|t|f', 'after bloom_resume nobody is denied');
is($standby->safe_psql('postgres',
		q{select bloom_might_contain_many('f', '{ada,liv,late,nobody}')}),
	'{t,t,t,f}', 'and it answers');
is($standby->safe_psql('postgres', $states), "f|ready|f\ntrusting|ready|f", 'ready');

$standby->stop;
done_testing();
