# pg_upgrade carries filters along, file by file. The new server is another system, so they wait
# for bloom_resume, which has them answer as before; where the normalization has changed, they answer
# maybe to names beyond ASCII until bloom_rebuild.
#
# From the major of this server to itself, unless the environment variable oldinstall names another one's
# folder, as for PostgreSQL's own test of pg_upgrade: oldinstall=/usr/lib/postgresql/15. The extension
# has to be installed there too.
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @utf8 = (extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
my @filters = qw(f_lower f_none f_nfkc f_username);
# pg_upgrade writes into the folder that it is called in
chdir $PostgreSQL::Test::Utils::tmp_check;

my $set_up = q{
create schema "Bloom ext";
create extension bloomfilter schema "Bloom ext";
set search_path = public, "Bloom ext";
create table users (name text);
insert into users select word || i
from generate_series(1, 250) i, unnest('{name,Ünal,ＦＵＬＬ,раураl}'::text[]) word;
create view names as select name from users;
select bloom_create('f_' || normalization, 10000, normalization => normalization,
                    source => 'select name from names')
from unnest('{lower,none,nfkc,username}'::text[]) normalization;
select bloom_create('f_suspended', 10000, source => 'select name from names');
select bloom_suspend('f_suspended');
select bloom_create('f_new', 10000);
select bloom_add('f_new', name) from users;
create trigger feed after insert on users for each row
    execute function bloom_add_trigger('public.f_none', 'name');
create table shards (shard int, seen bloomfilter default bloom_empty(1000, 0.01, 'none'));
insert into shards select 1, bloom_agg(name, 1000, 0.01, 'none') from users;
create index on shards using hash (seen);
create view checked as
select name, bloom_might_contain('f_none', name) as maybe, seen @> name as in_value from users, shards;
};

# What a query returns in a node.
my $node;
sub row
{
	return $node->safe_psql('postgres', qq{set search_path = public, "Bloom ext"; $_[0]});
}

# How many of the names a filter denies.
sub denied
{
	return row("select count(*) from users where not bloom_might_contain('$_[0]', name)");
}

# Resumes a filter, or builds it anew where its normalization is another one here.
sub resume
{
	my ($filter) = @_;
	my ($result, $output, $error) = $node->psql('postgres',
		qq{set search_path = public, "Bloom ext"; select bloom_resume('$filter')});
	is($result, 0, "$filter: bloom_resume");
	return unless $error =~ /is ready for ASCII names only/;
	is(row("select status from bloom_info('$filter')"), 'normalization changed: only ASCII is denied',
		"$filter: so says its status");
	is(denied($filter), '0', "$filter: none of the names is denied before it is rebuilt");
	row("call bloom_rebuild('$filter', 'select name from users', grace => '0')");
	return note("$filter: its normalization differs");
}

# The whole way, with options for pg_upgrade.
my $runs = 0;
sub upgrade
{
	my (@options) = @_;
	++$runs;
	my $old = PostgreSQL::Test::Cluster->new("old$runs", install_path => $ENV{oldinstall});
	$old->init(@utf8);
	$old->start;
	$old->safe_psql('postgres', $set_up);
	$node = $old;
	my $guards = q{select tgrelid::regclass, tgenabled, tgargs from pg_trigger
where tgname = 'bloom_filter' order by tgrelid::regclass::text};
	my $was = row($guards);
	my $values = row('select seen from shards');
	$old->stop;

	my $new = PostgreSQL::Test::Cluster->new("new$runs");
	$new->init(@utf8);
	my $bin = $new->config_data('--bindir');
	command_ok(
		[ 'pg_upgrade', '--no-sync', @options, '-d', $old->data_dir, '-D', $new->data_dir,
			'-b', $old->config_data('--bindir'), '-B', $bin,
			'-s', $new->host, '-p', $old->port, '-P', $new->port ], "pg_upgrade @options");
	$new->start;
	$node = $new;

	is(row($guards), $was, 'the same guards');
	is(row(q{select string_agg(distinct status, ', ') from bloom_filters
where filter not in ('f_suspended', 'f_new')}), 'suspended: restored on another server', 'suspended');
	is(row(q{select count(*) from bloom_filters where status like 'ready%'}), '0', 'none is ready');
	for my $filter (@filters, 'f_suspended', 'f_new')
	{
		is(denied($filter), '0', "$filter: none of the names is denied");
		is(row("select bloom_might_contain('$filter', 'nobody')"), 't', "$filter: checks answer maybe");
	}
	is(row(q{select bloom_add('f_none', 'meanwhile')}), 'f', 'adds go on, and tell of no name that it is new');
	for my $filter (@filters, 'f_suspended', 'f_new')
	{
		resume($filter);
		is(row("select split_part(status, ':', 1) from bloom_info('$filter')"), 'ready', "$filter: ready");
		is(denied($filter), '0', "$filter: none of the names is denied");
		is(row("select bloom_might_contain('$filter', 'nobody')"), 'f', "$filter: others are");
		is(row("select bloom_add('$filter', 'since'), bloom_might_contain('$filter', 'since')"), 't|t',
			"$filter: adds go on");
	}
	is(row(q{select bloom_might_contain('f_none', 'meanwhile')}), 't', 'so is the one added meanwhile');
	is(row('select seen from shards'), $values, 'the same value');
	is(row('select bool_and(maybe), bool_and(in_value) from checked'), 't|t', 'the view and the value answer');
	is(row(q{set enable_seqscan = off; select count(*) from shards where seen = (select seen from shards)}),
		'1', 'the index on values');
	is(row(q{insert into users values ('fed'); select maybe from checked where name = 'fed'}), 't',
		'the trigger adds');
	is(row(q{insert into shards (shard) values (2); select seen @> 'x' from shards where shard = 2}), 'f',
		'the default of type bloomfilter');
	$new->stop;
	return;
}

upgrade();  # copies the files
upgrade('--link');
done_testing();
