# Checks and adds beside REINDEX CONCURRENTLY, at each of its stages, and checks beside pg_repack,
# where it is installed; and what either leaves behind when it is killed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C', '--no-sync' ]);
$node->append_conf('postgresql.conf', 'autovacuum = off');
$node->start;
# Full pages, so that no add is HOT and each one makes index entries.
$node->safe_psql('postgres', q{
create extension bloomfilter;
create extension amcheck;
create table f (chunk int primary key, bits bit(8192) not null) with (fillfactor = 100);
insert into f select i, 0::bit(8192) from generate_series(0, 199) i;
select bloom_register('f', 'lower', 50000);
create function denied(prefix text, upto int) returns bigint language plpgsql as $$ begin
    return (select count(*) from generate_series(1, upto) i
            where not bloom_might_contain('f', prefix || i));
end $$;
-- The old snapshots here make the table grow, which is not what this is about.
create function told(status text, advice text) returns text language sql as
    'select case when status = ''ready: over twice its size when made'' then ''ready|''
     else status || ''|'' || coalesce(advice, '''') end';
});
my $indexes = q{select c.relname || ' ' || indisready || ' ' || indisvalid || ' ' || indisprimary
from pg_index i join pg_class c on c.oid = indexrelid where indrelid = 'f'::regclass order by 1};

# stage(NAME, INDEXES): adds and checks while the indexes are these.
sub stage
{
	my ($name, $expected) = @_;
	$node->poll_query_until('postgres', $indexes, $expected) or die "no stage $name";
	is($node->safe_psql('postgres', qq{
select count(bloom_add('f', '$name' || i)) from generate_series(1, 300) i;
select bloom_add_many('f', array(select '$name' || i from generate_series(301, 600) i)) > 290;
select denied('$name', 600), told(status, advice) from bloom_info('f')}), "300\nt\n0|ready|",
		"adds and checks: $name");
}

sub holder
{
	my $session = $node->background_psql('postgres');
	$session->query_safe('begin;' . shift);
	return $session;
}

# An old snapshot keeps dead versions, and so new ones from being HOT; and it is waited for once the
# new index has been compared with the table: what comes then is only in it if adds put it there.
my $old = holder(q{set transaction isolation level repeatable read; select 1});
my $one = holder(q{lock table f in row exclusive mode});
my $reindex = $node->background_psql('postgres', on_error_stop => 0);
$reindex->query_until(qr/begun/, "\\echo begun\nreindex index concurrently f_pkey;\n");
stage('made', "f_pkey true true true\nf_pkey_ccnew false false false");
my $two = holder(q{lock table f in row exclusive mode});
$one->query_safe('commit');
stage('built', "f_pkey true true true\nf_pkey_ccnew true false false");
my $three = holder(q{select bloom_might_contain('f', 'three')});
$two->query_safe('commit');
$node->poll_query_until('postgres', q{select phase = 'waiting for old snapshots'
from pg_stat_progress_create_index}) or die 'no stage validated';
stage('validated', "f_pkey true true true\nf_pkey_ccnew true false false");
$old->query_safe('commit');
stage('exchanged', "f_pkey true true true\nf_pkey_ccold true false false");
$three->query_safe('commit');
$reindex->query_safe('select 1');
stage('done', 'f_pkey true true true');
my $all = q{select denied('made', 600) + denied('built', 600) + denied('exchanged', 600) + denied('validated', 600)
+ denied('done', 600)};
is($node->safe_psql('postgres', $all), '0', 'nobody is denied');
is($node->safe_psql('postgres', q{select bt_index_check('f_pkey', true)}), '',
	'the new index has every row');
$_->quit for $old, $one, $two, $three;

# Killed: an index is left. Everything goes on, and the advice says how to be rid of it.
$one = holder(q{lock table f in row exclusive mode});
$reindex->query_until(qr/begun/, "\\echo begun\nreindex index concurrently f_pkey;\n");
$node->poll_query_until('postgres', $indexes, "f_pkey true true true\nf_pkey_ccnew false false false")
  or die;
is($node->safe_psql('postgres', q{select told(status, advice) from bloom_info('f')}), 'ready|', 'no advice while it runs');
$node->safe_psql('postgres', q{select pg_terminate_backend(pid, 10000) from pg_stat_activity
where query like 'reindex%'});
$one->query_safe('commit');
is($node->safe_psql('postgres', q{select told(status, advice) from bloom_info('f')}),
	'ready: unfinished index "f_pkey_ccnew"|drop index public.f_pkey_ccnew', 'the advice after a kill');
is($node->safe_psql('postgres', q{select count(bloom_add('f', 'kill' || i)) from generate_series(1, 300) i;
select denied('kill', 300)}), "300\n0", 'adds and checks go on');
my ($status, $output, $error) = $node->psql('postgres', q{call bloom_grow('f')});
like($error, qr/Bloom filter "f" has the unfinished index "f_pkey_ccnew"\n.*\nHINT:  If it has failed, run: drop index public.f_pkey_ccnew/,
	'a rebuild does not');
$node->safe_psql('postgres', 'drop index public.f_pkey_ccnew');
is($node->safe_psql('postgres', q{select told(status, advice) from bloom_info('f')}), 'ready|', 'removed');
$node->safe_psql('postgres', q{create unique index other on f (chunk)});
($status, $output, $error) = $node->psql('postgres', q{select bloom_might_contain('f', 'ada')});
like($error, qr/must have one index/, 'another index that is valid is as before');
$node->safe_psql('postgres', q{drop index other});
$one->quit;

# A trigger that fires after the event.
$node->safe_psql('postgres', q{create function nothing() returns trigger language plpgsql as
$$ begin return null; end $$;
create trigger "a Trigger" after update on f for each row execute function nothing();});
is($node->safe_psql('postgres', q{select bloom_might_contain('f', 'kill1'),
bloom_might_contain('f', 'nobody'), told(status, advice) from bloom_info('f')}),
	't|f|blocked: no adds while it has trigger "a Trigger"|drop trigger "a Trigger" on public.f',
	'a trigger: checks go on');
for my $call (q{select bloom_add('f', 'kill1')}, q{select bloom_add_many('f', '{kill1}')},
	q{select bloom_merge('f', bloom_agg_chunks('a', 200, 'lower'))}, q{call bloom_grow('f')})
{
	($status, $output, $error) = $node->psql('postgres', $call);
	like($error, qr/cannot change Bloom filter "f" while it has the trigger "a Trigger"\n.*\nHINT: .* If that program has failed, run: drop trigger "a Trigger" on public.f/,
		"refused: $call");
}
$node->safe_psql('postgres', q{drop trigger "a Trigger" on f;
create trigger b before update on f for each row execute function nothing()});
($status, $output, $error) = $node->psql('postgres', q{select bloom_might_contain('f', 'kill1')});
like($error, qr/has other triggers/, 'one that fires before could clear bits');
$node->safe_psql('postgres', q{drop trigger b on f});

SKIP:
{
	my $installed = $node->safe_psql('postgres',
		q{select count(*) from pg_available_extensions where name = 'pg_repack'});
	my $program = $node->config_data('--bindir') . '/pg_repack';
	skip 'pg_repack is not installed', 1 unless $installed && -x $program;
	$node->safe_psql('postgres', 'create extension pg_repack');
	my @repack = ($program, '--no-kill-backend', '-h', $node->host, '-p', $node->port, '-d', 'postgres', '-t', 'f');
	my $trigger = q{select count(*) from pg_trigger where tgname = 'repack_trigger'};

	for my $killed (1, 0)
	{
		# It waits for this transaction, with its trigger in place.
		my $old = holder('select txid_current()');
		my $repack = IPC::Run::start(\@repack, '>&', \my $out);
		$node->poll_query_until('postgres', $trigger, '1') or die "no trigger: $out";
		is($node->safe_psql('postgres', q{select denied('kill', 300), bloom_might_contain('f', 'nobody')}),
			'0|f', 'pg_repack: checks go on');
		($status, $output, $error) = $node->psql('postgres', q{select bloom_add('f', 'during')});
		like($error, qr/while it has the trigger "repack_trigger"/, 'adds are refused');
		$node->safe_psql('postgres', qq{update f set bits = bits + 'plain$killed'
where chunk = bloom_chunk('plain$killed', 200)});
		if ($killed)
		{
			$repack->kill_kill;
			$old->query_safe('commit');
			is($node->safe_psql('postgres', q{select told(status, advice), note from bloom_info('f')}),
				'blocked: no adds while it has trigger "repack_trigger"|drop trigger repack_trigger on public.f|pg_repack drops its trigger itself when it ends',
				'a killed one is named');
			$node->safe_psql('postgres', q{drop trigger repack_trigger on public.f;
drop extension pg_repack cascade; create extension pg_repack});
		}
		else
		{
			$old->query_safe('commit');
			ok($repack->finish, "pg_repack ends: $out");
		}
		$old->quit;
		is($node->safe_psql('postgres', qq{$trigger; $all + denied('kill', 300)
+ (not bloom_might_contain('f', 'plain1'))::int + (not bloom_might_contain('f', 'plain$killed'))::int;
select bloom_add('f', 'after$killed'), told(status, advice) from bloom_info('f')}), "0\n0\nt|ready|",
			'afterwards all is there, and adds go on');
	}
	is($node->safe_psql('postgres', q{select bt_index_check('f_pkey', true)}), '', 'the index too');
}

$node->stop;
done_testing();
