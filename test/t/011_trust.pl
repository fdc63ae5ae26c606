# A filter that trusts failovers: whoever adds to it returns only when the synchronous standby has
# what the answer stands on, whatever the session's synchronous_commit, and also where the bits were
# all there. And a backup that is restored does not pass for a failover.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(
	allows_streaming => 1,
	has_archiving => 1,
	extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
$primary->append_conf('postgresql.conf', "max_prepared_transactions = 5\nautovacuum = off\nwal_keep_size = 1GB\n");
$primary->start;
my ($status, $output, $told) = $primary->psql('postgres', q{
create extension bloomfilter;
set client_min_messages = warning;
select bloom_create('f', 1000, ready => true), bloom_create('plain', 1000, ready => true);
select bloom_resume('plain', trust_failover => false);
select bloom_resume('f', trust_failover => true);
});
like($told, qr/WARNING:  Bloom filter "f" trusts failovers, but no standby is synchronous
DETAIL:  .*
HINT:  Set synchronous_standby_names\./, 'a warning where nobody is waited for');
unlike($told, qr/"plain"/, 'for none that does not trust');
my $notes = q{select filter, note from bloom_filters order by filter::text};
is($primary->safe_psql('postgres', $notes),
	"f|trusts failovers, but no standby is synchronous\nplain|", 'and a note');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', q{alter system set synchronous_standby_names = '*'});
$primary->reload;
$primary->poll_query_until('postgres',
	q{select count(*) = 1 from pg_stat_replication where sync_state = 'sync'})
  or die 'the standby is not synchronous';
($status, $output, $told) = $primary->psql('postgres', q{
select bloom_resume('f', trust_failover => true), bloom_add('f', 'before'), bloom_add('plain', 'before');
create function add_locally(name text) returns boolean language sql
set synchronous_commit = local as 'select bloom_add($$f$$, name)';
});
unlike($told, qr/WARNING/, 'no warning where a standby is synchronous');
is($primary->safe_psql('postgres', $notes), "f|\nplain|", 'nor a note');
$primary->safe_psql('postgres', q{select pg_create_restore_point('here')});
my $segment = $primary->safe_psql('postgres', 'select pg_walfile_name(pg_switch_wal())');
$primary->poll_query_until('postgres',
	"select last_archived_wal >= '$segment' from pg_stat_archiver") or die 'nothing is archived';
$standby->stop;

# Whether a statement waits for the standby; the wait is cancelled then, which leaves it committed.
sub waits
{
	my ($sql, $name) = @_;
	my $session = $primary->background_psql('postgres', on_error_stop => 0);
	my $pid = $session->query_safe('select pg_backend_pid()');
	$session->query_until(qr/begun/, "\\echo begun\n$sql\nselect 'returned';\n");
	$primary->poll_query_until('postgres', qq{
select coalesce(wait_event, '') = 'SyncRep' or (state = 'idle' and query ~ 'returned')
from pg_stat_activity where pid = $pid});
	my $event =
	  $primary->safe_psql('postgres', "select wait_event from pg_stat_activity where pid = $pid");
	is($event, 'SyncRep', "waits: $name");
	# every statement after it in the session, too
	$primary->safe_psql('postgres', "select pg_terminate_backend($pid, 5000)");
	eval { $session->{run}->finish };
	return;
}
my $local = q{set synchronous_commit = local; };
my $off = q{set synchronous_commit = off; };
my $add = q{select bloom_add('f', 'ada');};
waits($add, 'an add');
is($primary->safe_psql('postgres', q{select bloom_might_contain('f', 'ada')}), 't', 'it is there');
waits($add, 'the same add again');
waits("$local$add", 'where the session would not');
waits("$off$add", 'or not even for the disk');
waits("set synchronous_commit = remote_write; $add", 'or not for the disk of the standby');
waits("begin; $add set local synchronous_commit = off; commit;", 'where it is lowered afterwards');
waits(q{select add_locally('ada');}, 'within a function that lowers it');
waits("${local}begin; savepoint s; $add rollback to s; commit;", 'a savepoint rolled back');
waits("${local}begin; savepoint s; $add release s; commit;", 'a savepoint released');
waits(qq{$local do \$\$ begin perform bloom_add('plain', 'ada'); commit;
perform bloom_add('f', 'ada'); commit; end \$\$;}, 'the second commit of a procedure');
waits(qq{$local select bloom_add_many('f', '{ada,before}');}, 'many that are there');
waits(qq{$local select bloom_add_many('f', '{}');}, 'none at all');
waits(qq{$local select bloom_merge('f', bloom_agg_chunks('ada', 128, 'lower'));}, 'a merge');
waits(qq{$local update f set bits = bits | mask from username_bits('ada', 128) u
where f.chunk = u.chunk;}, 'a plain update');
waits(qq{$local select bloom_add('f', 'new');}, 'a new name');
waits(qq{$local select bloom_suspend('f');}, 'the switch');
waits(qq{$local select bloom_resume('f');}, 'and back');

# Prepared: not to be told who commits it.
($status, $output, $told) =
  $primary->psql('postgres', "begin; $add prepare transaction 'p';");
like($told, qr/ERROR:  cannot prepare a transaction that has changed a Bloom filter that trusts/,
	'a prepared transaction is refused');
is($primary->safe_psql('postgres', 'select count(*) from pg_prepared_xacts'), '0', 'and is gone');

# A filter that does not trust has nothing to do with it, nor has the next transaction.
is($primary->safe_psql('postgres', qq{$local
select bloom_add('plain', 'liv');
begin; select bloom_add('plain', 'liv'); prepare transaction 'q';
commit prepared 'q';
begin; select bloom_add('f', 'ada'); rollback;
begin; select bloom_add('plain', 'liv'); select pg_current_xact_id_if_assigned() is null; commit;
reset synchronous_commit;
select bloom_add('plain', 'liv');
select pg_current_wal_insert_lsn() as before \\gset
select bloom_add('plain', 'liv');
select pg_current_wal_insert_lsn() = :'before';
}), join("\n", qw(t f f f t f f t)), 'a filter that does not trust waits for nobody');
($status, $output, $told) = $primary->psql('postgres',
	qq{$local begin isolation level serializable; select bloom_might_contain('f', 'ada'); commit});
is($output, 't', 'nor does a check');

# Once the standby is back the add returns, and what it stands on outlives the primary.
my $session = $primary->background_psql('postgres', on_error_stop => 0);
$session->query_until(qr/begun/, "\\echo begun\n$local$add\n");
$standby->start;
is($session->query('select 1'), "f\n1", 'the add returns with the standby');
$primary->stop('immediate');
$standby->promote;
my $answers = q{select bloom_might_contain_many('f', '{before,ada,new,nobody}')};
my $state = q{select status from bloom_filters where filter = 'f'::regclass};
is($standby->safe_psql('postgres', $answers), '{t,t,t,f}', 'the promoted standby has the names');
is($standby->safe_psql('postgres', $state), 'ready', 'and is trusted');
is($standby->safe_psql('postgres', q{
alter system set synchronous_standby_names = '';
select pg_reload_conf();
begin; set synchronous_commit = off; select bloom_add('f', 'ada'); commit;
show synchronous_commit;
begin; set local synchronous_commit = local; select bloom_add('f', 'ada'); rollback;
begin; select bloom_add('f', 'ada'); commit;
show synchronous_commit;
}), join("\n", qw(t f off f f off)), 'the setting is raised for one commit only');

# Another standby that follows it over the failover.
my $second = PostgreSQL::Test::Cluster->new('second');
$second->init_from_backup($primary, 'base');
$second->enable_streaming($standby);
$second->start;
$standby->wait_for_catchup($second, 'replay', $standby->lsn('flush'));
is($second->safe_psql('postgres', $answers), '{t,t,t,f}', 'a standby of it has the names');
is($second->safe_psql('postgres', $state), 'ready', 'and trusts it too');
$second->stop;

# A restore of the backup up to a point: no failover.
sub restored
{
	my ($name, $target) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init_from_backup($primary, 'base', has_restoring => 1, standby => 0);
	$node->append_conf('postgresql.conf', "synchronous_standby_names = ''\n$target\n");
	$node->start;
	$node->poll_query_until('postgres', 'select not pg_is_in_recovery()') or die;
	return $node;
}
my $restored = restored('restored', q{recovery_target_name = 'here'
recovery_target_action = promote});
is($restored->safe_psql('postgres', $state), 'suspended: restored from a backup',
	'a restore to a point is none');
($status, $output, $told) = $restored->psql('postgres', $answers);
is($output, '{t,t,t,t}', 'everything is maybe');
like($told, qr/DETAIL:  Its status is "suspended: restored from a backup"\./, 'with a notice');
# A failover of what was restored is not one of what it was restored from.
$restored->safe_psql('postgres', q{set client_min_messages = error; select bloom_resume('f')});
is($restored->safe_psql('postgres', $state), 'ready', 'until it is resumed');
$restored->stop;

# What the history says decides, and what it does not say does not count.
my $history = $standby->data_dir . '/pg_wal/00000002.history';
my $written = slurp_file($history);
sub state_with
{
	my ($text, $expected, $name) = @_;
	unlink $history;
	append_to_file($history, $text) if defined $text;
	is($standby->safe_psql('postgres', $state), $expected, $name);
	return;
}
my $backup = 'suspended: restored from a backup';
state_with($written, 'ready', 'the history as it was written');
state_with("# a comment\n\n$written", 'ready', 'with a comment');
state_with(undef, $backup, 'no history');
state_with('', $backup, 'an empty one');
state_with("1\t0/3000000\tat restore point \"no recovery target specified\"\n", $backup, 'a point');
state_with("1\t0/3000000\tbefore 2026-01-01 00:00:00+00\n\n", $backup, 'a time');
state_with("1\t0/3000000\tafter LSN 0/3000000\n", $backup, 'a position');
state_with("1\t0/3000000\treached consistency\n", $backup, 'consistency');
state_with("1\t0/3000000\n", $backup, 'no reason');
state_with("7\t0/3000000\tno recovery target specified\n", $backup, 'another timeline');
state_with("one\t0/3000000\tno recovery target specified\n", $backup, 'no timeline');
state_with($written, 'ready', 'and again as it was written');

# A longer chain.
$standby->stop;
$standby->set_standby_mode;
$standby->start;
$standby->promote;
is($standby->safe_psql('postgres', $state), 'ready', 'a second failover');
$history = $standby->data_dir . '/pg_wal/00000003.history';
my $end = "no recovery target specified\n";
state_with("1\t0/3000000\t$end\n2\t0/4000000\t$end", 'ready', 'two failovers');
state_with("2\t0/4000000\t$end", $backup, 'of another line');
state_with("1\t0/3000000\t$end", $backup, 'with a timeline left aside');
state_with("1\t0/3000000\treached consistency\n\n2\t0/4000000\t$end", $backup, 'a restore first');
state_with("1\t0/3000000\t$end\n2\t0/4000000\treached consistency\n", $backup, 'a restore last');
state_with("1\t0/3000000\t$end\n2\t0/4000000\t$end", 'ready', 'two failovers again');
# Only what happened since it was resumed counts.
$standby->safe_psql('postgres',
	q{set client_min_messages = error; select bloom_resume('f')});
state_with("1\t0/3000000\treached consistency\n\n2\t0/4000000\t$end", 'ready', 'what is past');

$standby->stop;
done_testing();
