# pg_upgrade carries filters along, file by file. The new server is another system, so they wait
# for bloom_resume, which has them answer as before.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @utf8 = (extra => [ '--encoding=UTF8', '--locale=C' ]);
my $old = PostgreSQL::Test::Cluster->new('old');
$old->init(@utf8);
$old->start;
$old->safe_psql('postgres', q{
create schema "Bloom ext";
create extension bloomfilter schema "Bloom ext";
set search_path = public, "Bloom ext";
select bloom_create('f', 10000, ready => true);
select bloom_add('f', 'n' || i) from generate_series(1, 1000) i;
});
my $guard = q{select tgenabled, tgargs from pg_trigger where tgname = 'bloom_filter'};
my $was = $old->safe_psql('postgres', $guard);
$old->stop;

my $new = PostgreSQL::Test::Cluster->new('new');
$new->init(@utf8);
my $bin = $new->config_data('--bindir');
# it writes into the folder that it is called in
chdir $PostgreSQL::Test::Utils::tmp_check;
command_ok([ 'pg_upgrade', '--no-sync',
		'-d', $old->data_dir, '-D', $new->data_dir, '-b', $bin, '-B', $bin,
		'-s', $new->host, '-p', $old->port, '-P', $new->port ], 'pg_upgrade');
$new->start;

my $denied = q{select count(*) from generate_series(1, 1000) i
where not bloom_might_contain('f', 'n' || i)};
my $absent = q{select bloom_might_contain('f', 'nobody')};
sub row
{
	return $new->safe_psql('postgres', qq{set search_path = public, "Bloom ext"; $_[0]});
}
is(row($guard), $was, 'the same guard');
is(row(q{select status from bloom_filters}), 'suspended: restored on another server', 'suspended');
is(row($absent), 't', 'checks answer maybe');
is(row(q{select bloom_resume('f')}), '', 'bloom_resume');
is(row(q{select split_part(status, ':', 1) from bloom_filters}), 'ready', 'ready');
is(row($denied), '0', 'none of the names is denied');
is(row($absent), 'f', 'others are');
is(row(q{select bloom_add('f', 'since'), bloom_might_contain('f', 'since')}), 't|t', 'adds go on');

$new->stop;
done_testing();
