# What monitoring/ has fits the extension: the exporter's queries run as a role that is only in pg_monitor,
# return the columns that their file names, and tell every status. The alerts and the dashboard ask for
# nothing else than these metrics. Rules and units are checked by promtool and systemd-analyze where
# these are installed.
use strict;
use warnings FATAL => 'all';
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my %text = map { $_ => slurp_file("monitoring/$_") }
  qw(postgres_exporter.yml alerts.yml alerts_test.yml dashboard.json);
my $page = slurp_file('docs/operations.md');

# The entries of the exporter's file, a hash each: name, query, and columns as pairs of name and usage.
# It reads the little of YAML that the file is written in.
sub entries
{
	my (@entries) = ();
	for my $line (split /\n/, $text{'postgres_exporter.yml'})
	{
		if ($line =~ /^(\w+):$/) { push @entries, { name => $1, query => '', columns => [] } }
		elsif ($line =~ /^    - (\w+): \{usage: "(LABEL|GAUGE|COUNTER)", description: "[^"]+"\}$/)
		{
			push @{ $entries[-1]{columns} }, [ $1, $2 ];
		}
		elsif ($line =~ /^    (\S.*| .*)$/) { $entries[-1]{query} .= "$1\n" }
		elsif ($line !~ /^(?:#.*|  query: \||  metrics:|)$/) { die "not understood: $line" }
	}
	return @entries;
}

my @entries = entries();
my %metric;
for my $entry (@entries)
{
	$metric{"$entry->{name}_$_->[0]"} = $_->[1] for grep { $_->[1] ne 'LABEL' } @{ $entry->{columns} };
}
cmp_ok(scalar keys %metric, '>', 20, 'the exporter\'s file has metrics');

# ---- A server with a filter in each kind of status

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'bloomfilter'\n");
$node->start;
$node->safe_psql('postgres', q{
set client_min_messages = warning;
create extension bloomfilter;
create schema "Odd schema";
create role owner;
create role exporter login in role pg_monitor;
grant all on schema public, "Odd schema" to owner;
set role owner;
select bloom_create('ready', 1e5, ready => true);
select bloom_create('"Odd schema"."A ""filter"""', 1e5, ready => true);
select bloom_create('never_loaded', 1e5);
select bloom_create('over_capacity', 2e3, ready => true);
select bloom_create('locked', 1e5, ready => true);
select bloom_create('suspended', 1e5, ready => true);
select bloom_create('damaged', 1e5, ready => true);
select bloom_create('unusable', 1e5, ready => true);
select bloom_create('skewed', 1e5, ready => true);
select bloom_add_many('over_capacity', array_agg('user' || i)) from generate_series(1, 2100) i;
select bloom_suspend('suspended');
-- names that share a chunk
select bloom_add_many('skewed', array_agg(name))
from (select 'n' || i as name from generate_series(1, 200000) i) _, bloom_info('skewed') info
where bloom_chunk(name, info.chunks) = 7;
select bloom_add_many('skewed', array_agg('user' || i)) from generate_series(1, 2000) i;
alter table damaged disable trigger bloom_filter;
delete from damaged where chunk = 5;
alter table damaged enable always trigger bloom_filter;
alter table unusable disable trigger bloom_filter;
select bloom_might_contain('ready', 'nobody');
select bloom_add('ready', 'ada');
select bloom_might_contain('ready', 'ada');
select bloom_report_false_positive('ready');
});
my $locker = $node->background_psql('postgres');
$locker->query_safe('begin; lock table locked in access exclusive mode;');

# Runs a query as the exporter does, and returns its rows as hashes.
sub rows
{
	my ($query) = @_;
	my $json = $node->safe_psql('postgres', "select coalesce(json_agg(_), '[]') from ($query) _",
		extra_params => [ '--username=exporter' ]);
	return @{ decode_json($json) };
}

is($node->safe_psql('postgres', q{select rolsuper or rolcreaterole from pg_roles where rolname = 'exporter'}), 'f',
	'the exporter is nobody special');
my %row;
for my $entry (@entries)
{
	my ($name, $query) = @$entry{qw(name query)};
	my @rows = rows($query);
	is(scalar @rows, 9, "$name has a row for each filter");
	is_deeply([ sort keys %{ $rows[0] } ], [ sort map { $_->[0] } @{ $entry->{columns} } ],
		"$name returns the columns that the file names");
	for my $column (@{ $entry->{columns} })
	{
		my ($title, $usage) = @$column;
		my @bad = grep { defined && !/^-?[\d.]+(?:[eE]-?\d+)?$/ } map { $_->{$title} } @rows;
		is_deeply(\@bad, [], "$name: $title is a number") if $usage ne 'LABEL';
		is(scalar(grep { !defined $_->{$title} } @rows), 0, "$name: $title is never null") if $usage eq 'LABEL';
		like($title, qr/_total$/, "$name: $title is named as a counter") if $usage eq 'COUNTER';
	}
	$row{ $_->{filter} } = { %{ $row{ $_->{filter} } // {} }, %$_ } for @rows;
}

# The metrics that a status stands for, of one filter.
sub shown
{
	my ($filter) = @_;
	return join ' ', map { $_ // 'null' } @{ $row{$filter} }{qw(ready needs_action damaged refuses_adds status)};
}

is(shown('ready'), '1 0 0 0 ready', 'a filter that is well');
is(shown('"Odd schema"."A ""filter"""'), '1 0 0 0 ready', 'one whose name needs quotes');
is(shown('never_loaded'), '0 1 0 0 not ready: never loaded', 'one that was never loaded');
is(shown('over_capacity'), '1 1 0 0 ready: over capacity', 'one that is too full');
is(shown('locked'), '0 1 0 0 locked', 'one that is locked');
is(shown('suspended'), '0 1 0 0 suspended', 'one that is suspended');
is(shown('damaged'), '0 1 1 0 damaged: chunk 5 is missing', 'one that is damaged');
like(shown('unusable'), qr/^0 1 0 1 unusable: /, 'one that is unusable');
is(shown('skewed'), '1 1 0 0 ready: skewed', 'one that is skewed, without the figures that change');
is(join(' ', @{ $row{ready} }{qw(lookups_total maybes_total adds_total false_positives_total)}), '2 1 1 1',
	'what was done with a filter is counted');
cmp_ok($row{over_capacity}{saturation}, '>', 1, 'items against the capacity');
is($row{locked}{saturation}, undef, 'of a locked filter nothing is known');
$locker->quit;
$node->stop;

# ---- What asks for the metrics

# The names of metrics in a text of PromQL.
sub metrics_in { my ($promql) = @_; return $promql =~ /\b(bloom_filter_\w+)/g }

my $dashboard = decode_json($text{'dashboard.json'});
my @targets = map { @{ $_->{targets} } } @{ $dashboard->{panels} };
cmp_ok(scalar @targets, '>', 10, 'the dashboard has queries');
for my $use ([ 'alerts.yml', metrics_in($text{'alerts.yml'}) ],
	[ 'alerts_test.yml', metrics_in($text{'alerts_test.yml'}) ],
	[ 'dashboard.json', map { metrics_in($_->{expr}) } @targets ],
	[ 'dashboard.json, variables', map { metrics_in($_->{query}) } @{ $dashboard->{templating}{list} } ],
	[ 'docs/operations.md', metrics_in($page =~ s/bloom_filter_truncate//gr) ])
{
	my ($name, @used) = @$use;
	is_deeply([ grep { !$metric{$_} } @used ], [], "$name: every metric is exported");
}

# Counters are asked for their growth, gauges for their value.
for my $promql ($text{'alerts.yml'}, map { $_->{expr} } @targets)
{
	my @bare = $promql =~ /(?<!rate\()\b(bloom_filter_\w+_total)/g;
	is_deeply(\@bare, [], 'counters are inside rate(): ' . substr($promql, 0, 60) =~ s/\n.*//sr);
}

# Panels have ids of their own, lie within the 24 columns of Grafana's grid, and beside each other.
my %taken;
for my $panel (@{ $dashboard->{panels} })
{
	my ($x, $y, $w, $h) = @{ $panel->{gridPos} }{qw(x y w h)};
	cmp_ok($x + $w, '<=', 24, "panel \"$panel->{title}\" is within the grid");
	my @cells = map { my $column = $_; map { "$column,$_" } $y .. $y + $h - 1 } $x .. $x + $w - 1;
	is_deeply([ grep { $taken{$_}++ } "id $panel->{id}", @cells ], [], 'and covers no other');
}

# Each alert is in the page, and each is tested.
my @alerts = $text{'alerts.yml'} =~ /^ +- alert: (\w+)$/mg;
cmp_ok(scalar @alerts, '>=', 8, 'there are alerts');
is_deeply([ grep { $page !~ /`$_`/ } @alerts ], [], 'the page says what to do at each alert');
is_deeply([ grep { $text{'alerts_test.yml'} !~ /alertname="$_"/ } @alerts ], [], 'each alert has a test');

# ---- Programs that know the formats, where they are installed

# Whether there is such a program.
sub has_program { my ($program) = @_; return system("command -v $program >/dev/null 2>&1") == 0 }

SKIP:
{
	skip 'no promtool: the rules are not checked', 2 unless has_program('promtool');
	command_ok([ 'promtool', 'check', 'rules', 'monitoring/alerts.yml' ], 'the rules are valid');
	command_ok([ 'promtool', 'test', 'rules', 'monitoring/alerts_test.yml' ], 'each alert fires when it should, and only then');
}
SKIP:
{
	skip 'no systemd-analyze: the units are not checked', 1 unless has_program('systemd-analyze');
	my ($output, $error) = run_command(
		[ 'systemd-analyze', 'verify', map { "monitoring/bloomfilter-rebuild.$_" } qw(service timer) ]);
	# It tells of other units of the machine too, and of a psql that is elsewhere.
	my @said = grep { /bloomfilter-rebuild/ && !/is not executable/ } split /\n/, "$output\n$error";
	is_deeply(\@said, [], 'the units are valid');
}

done_testing();
