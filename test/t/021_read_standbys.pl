# Two standbys of the filter server take checks. What they lag behind, the primary key on the shard
# of the name makes harmless, and remote_apply makes impossible.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/..";
use Shards;

my $shards = Shards->new(servers => 1, filter => { allows_streaming => 1 });
my $primary = $shards->{filter};
my $shard_server = $shards->{servers}[0];
$shards->load(1000);
$primary->safe_psql('postgres', q{
-- What signs up: it checks and adds, on the primary.
create role signup login;
grant select, insert on username_filter to signup;
-- What only checks, on the standbys.
create role checker login;
grant select on username_filter to checker;
});
$primary->backup('base');
my @standbys = map {
	my $standby = PostgreSQL::Test::Cluster->new("standby_$_");
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	$standby->start;
	$standby;
} 1, 2;

sub catch_up
{
	$primary->wait_for_catchup($_, 'replay', $primary->lsn('flush')) for @standbys;
	return;
}

# What a role gets from a node: the value, or the SQLSTATE of the error.
sub as_role
{
	my ($role, $node, $sql) = @_;
	my ($status, $output, $error) = $node->psql('postgres', $sql,
		extra_params => [ '-U', $role, '-v', 'VERBOSITY=sqlstate' ]);
	return $status == 0 ? $output : ($error =~ /ERROR:  (\w{5})/)[0];
}

# What the checker is told about a name by each standby.
sub checks
{
	my ($name) = @_;
	return join ' ', map { as_role('checker', $_, "select bloom_might_contain('username_filter', '$name')") } @standbys;
}

# ---- Checks on two, and who may do what

catch_up();
is(checks($_), 't t', "$_ is taken") for qw(USER17 Ghost);
is(checks('nobody'), 'f f', 'nobody is definitely free');
for my $standby (@standbys)
{
	is(as_role('checker', $standby, q{select count(*) from generate_series(1, 1000) i
		where not bloom_might_contain('username_filter', 'user' || i)}), '0', 'none of 1,000 users is denied');
}
my $add = q{select bloom_add('username_filter', 'zoe')};
is(as_role('signup', $_, $add), '25006', 'nobody adds on a standby') for @standbys;
is(as_role('checker', $primary, $add), '42501', 'the checker does not add on the primary');
is(as_role('signup', $primary, $add), 't', 'who signs up does');
is(as_role('signup', $primary, q{select bloom_suspend('username_filter')}), '42501',
	'but does not suspend: the owner does');

# ---- One that lags

my $lagging = $standbys[1];

# What the checker is told when the other standby has replayed all.
sub checks_of_lagging
{
	my ($name) = @_;
	$primary->wait_for_catchup($standbys[0], 'replay', $primary->lsn('flush'));
	return checks($name);
}

# Waits until the lagging standby replays nothing more.
sub pause
{
	$lagging->safe_psql('postgres', 'select pg_wal_replay_pause()');
	$lagging->poll_query_until('postgres', q{select pg_get_wal_replay_pause_state() = 'paused'})
	  or die 'it goes on replaying';
	return;
}

sub resume
{
	$lagging->safe_psql('postgres', 'select pg_wal_replay_resume()');
	catch_up();
	return;
}

catch_up();
pause();
# One visitor signs up in the right order.
is(as_role('signup', $primary, q{select bloom_add('username_filter', 'Late')}), 't', 'an add on the primary');
$shards->value(q{insert into usernames values ('late', 2001)});
$shards->value(q{insert into users values (2001, 'Late')});
is(checks_of_lagging('late'), 't f', 'a lagging standby calls a name free that was just added');
# Another one, who was told that it is free.
is(as_role('signup', $primary, q{select bloom_add('username_filter', 'late')}), 'f', 'its add finds the bits');
like($shards->error_of(q{insert into usernames values ('late', 2002)}), qr/ERROR:  23505:/,
	'and the primary key on the shard of the name refuses it');
is($shards->doubles, '0', 'no name is there twice');
# How it is without the key.
$shards->value(q{insert into users values (2002, 'late')});
is($shards->doubles, '1', 'who trusts the standby and has no key makes a double name');
$shards->value('delete from users where id = 2002');
resume();
is(checks('late'), 't t', 'once it has replayed the add it answers maybe');

# bloom_suspend comes as late.
pause();
$shards->value(q{select bloom_suspend('username_filter')});
is(checks_of_lagging('nobody'), 't f', 'a lagging standby goes on to answer no after bloom_suspend');
resume();
is(checks('nobody'), 't t', 'until it has replayed it');
$shards->value(q{select bloom_resume('username_filter')});

# ---- Standbys that may not lag

$primary->append_conf('postgresql.conf', q{synchronous_standby_names = 'FIRST 2 (standby_1, standby_2)'});
$primary->reload;
$primary->poll_query_until('postgres', q{select count(*) = 2 from pg_stat_replication where sync_state = 'sync'})
  or die 'the standbys are not synchronous';

# Has the shard server add names on the primary, one by one, as who signs up, and check each on both
# standbys as soon as the add has returned. Returns how many checks said "free".
my %at = (
	filter => "user=signup dbname=postgres host=" . $primary->host . ' port=' . $primary->port,
	map { my $node = $standbys[ $_ - 1 ];
		"standby_$_" => "user=checker dbname=postgres host=" . $node->host . ' port=' . $node->port } 1, 2);
$shard_server->safe_psql('postgres', 'create extension dblink');
sub denied_after_add
{
	my ($prefix, $count) = @_;
	my $connect = join '', map { "perform dblink_connect('$_', '$at{$_}');\n" } sort keys %at;
	return $shard_server->safe_psql('postgres', qq{
create function ask(node text, call text, name text) returns boolean language sql as
	'select answer from dblink(\$1, format(\$\$select %s(''username_filter'', %L)\$\$, \$2, \$3)) as (answer boolean)';
create temporary table wrong (name text);
do \$\$
begin
	$connect
	for i in 1 .. $count loop
		perform ask('filter', 'bloom_add', '$prefix' || i);
		insert into wrong select node from unnest(array['standby_1', 'standby_2']) node
			where ask(node, 'bloom_might_contain', '$prefix' || i) is distinct from true;
	end loop;
end \$\$;
drop function ask;
select count(*) from wrong});
}

$shards->value(q{alter role signup set synchronous_commit = remote_apply});
is(denied_after_add('applied', 1000), '0', 'remote_apply: 1,000 adds, both standbys answer maybe at once');

# An add does not return as long as one of the two does not replay.
pause();
my $waiting = $primary->background_psql('postgres', extra_params => [ '-U', 'signup' ]);
$waiting->query_until(qr/sent/, q{\echo sent
select bloom_add('username_filter', 'Waits');
\echo over
});
ok($primary->poll_query_until('postgres', q{select count(*) = 1 from pg_stat_activity
	where usename = 'signup' and wait_event = 'SyncRep'}), 'an add waits for a standby that is paused');
is(checks_of_lagging('waits'), 't f', 'which does not know it yet');
unlike($waiting->{stdout}, qr/over/, 'so it has not returned');
resume();
$waiting->query_until(qr/over/, '');
is(checks('waits'), 't t', 'when it has returned, both know it');

# How it is with "on", which waits only until the standbys have written it.
$shards->value(q{alter role signup set synchronous_commit = on});
pause();
is(as_role('signup', $primary, q{select bloom_add('username_filter', 'Written')}), 't',
	'with synchronous_commit = on the add returns');
is(checks_of_lagging('written'), 't f', 'and a paused standby calls the name free');
cmp_ok(denied_after_add('on', 100), '>=', 100, 'as it does of each of 100 others');

# An add that finds its bits has nothing to write, and nothing to wait for.
$shards->value(q{alter role signup set synchronous_commit = remote_apply});
is(as_role('signup', $primary, q{select bloom_add('username_filter', 'Written')}), 'f',
	'an add that finds its bits returns at once, also with remote_apply');
is(checks_of_lagging('written'), 't f', 'so every role that adds must have remote_apply');
resume();

# If the filter trusts failovers, such an add waits too.
$shards->value(q{select bloom_resume('username_filter', trust_failover => true)});
$shards->value(q{alter role signup set synchronous_commit = on});
pause();
is(as_role('signup', $primary, q{select bloom_add('username_filter', 'Relied')}), 't', 'added with "on"');
$shards->value(q{alter role signup set synchronous_commit = remote_apply});
$waiting->quit;
$waiting = $primary->background_psql('postgres', extra_params => [ '-U', 'signup' ]);
$waiting->query_until(qr/sent/, q{\echo sent
select bloom_add('username_filter', 'Relied');
\echo over
});
ok($primary->poll_query_until('postgres', q{select count(*) = 1 from pg_stat_activity
	where usename = 'signup' and wait_event = 'SyncRep'}),
	'of a filter that trusts failovers, an add that finds its bits waits too');
is(checks_of_lagging('relied'), 't f', 'as long as a standby is behind');
resume();
$waiting->query_until(qr/over/, '');
is(checks('relied'), 't t', 'when it has returned, both know it');
$waiting->quit;
is($shards->denied, '0', 'nobody is denied');

$_->stop for @standbys;
$shards->stop;
done_testing();
