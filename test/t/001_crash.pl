# An add that has returned survives kill -9, whatever synchronous_commit says, and so do the bits
# that another's add relied on.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/..";
use Crash;

my $rounds = $ENV{BLOOM_TEST_ALL} ? 20 : 5;
my $names_a_client = 100_000;    # more than it adds before the server dies

my $node = PostgreSQL::Test::Cluster->new('crash');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
# What is not forced out stays in memory for long, and is lost.
$node->append_conf('postgresql.conf', q{
synchronous_commit = off
wal_writer_delay = '10s'
wal_buffers = '16MB'
autovacuum = off
log_statement = none
});
$node->start;
$node->safe_psql('postgres', q{
create extension bloomfilter;
select bloom_create('f', 1000000, ready => true);
});
my $chunks = $node->safe_psql('postgres', 'select count(*) from f');

# A client: a psql that adds name after name, each in its own transaction, and prints each once
# bloom_add has returned.
sub start_client
{
	my ($prefix) = @_;
	my %client = (returned => '', errors => '', script =>
		q{select format($$select %1$L where bloom_add('f', %1$L) is not null$$, }
		  . "'$prefix' || i) from generate_series(1, $names_a_client) i \\gexec\n");
	$client{run} = IPC::Run::start(
		[ 'psql', '-XqAt', '-d', $node->connstr('postgres') ],
		'<', \$client{script}, '>', \$client{returned}, '2>', \$client{errors});
	return \%client;
}

# Names of those given that a check denies.
sub denied
{
	my ($names) = @_;
	return $node->safe_psql('postgres',
		    "create temporary table returned (name text);\ncopy returned from stdin;\n"
		  . join('', map { "$_\n" } @$names) . "\\.\n"
		  . "select name from returned where not bloom_might_contain('f', name) limit 5;");
}

my @all;
for my $round (1 .. $rounds)
{
	# Two with names of their own, two with the same names: one of those finds the bits that the
	# other has just set, and returns at once.
	my @clients = map { start_client($_ . $round . '_') } qw(own mine both both);
	my $some = 100 + int rand 300;
	for my $client (@clients)
	{
		my $timeout = IPC::Run::timer($PostgreSQL::Test::Utils::timeout_default);
		pump_until($client->{run}, $timeout, \$client->{returned}, qr/_$some\n/)
		  or die "client stopped early: $client->{errors}";
	}
	kill_server($node);
	my @names;
	for my $client (@clients)
	{
		$client->{run}->finish;
		my @returned = $client->{returned} =~ /^(\w+)\n/mg;
		cmp_ok(scalar @returned, '<', $names_a_client, "round $round: killed among its adds");
		push @names, @returned;
	}
	push @all, @names;
	$node->start;
	is(denied(\@names), '', "round $round: none of " . @names . ' names that returned is denied');
}

# The article's plain UPDATE, and an add that returns at once because it finds its bits: they were
# set by a transaction that nobody else forces out.
$node->safe_psql('postgres', qq{
update f set bits = bits | mask from username_bits('relied', $chunks) u where f.chunk = u.chunk});
is($node->safe_psql('postgres', q{select bloom_add('f', 'relied')}),
	'f', 'an add relies on an update');
kill_server($node);
$node->start;
is(denied(['relied']), '', 'and rightly so');

is(denied(\@all), '', 'nor is any name of an earlier round');
is($node->safe_psql('postgres', "select split_part(status, ':', 1), chunks from bloom_info('f')"),
	"ready|$chunks", 'the filter is whole');
cmp_ok($node->safe_psql('postgres', q{
select count(*) from generate_series(1, 1000) i where not bloom_might_contain('f', 'nobody' || i)
}), '>', 900, 'it still denies who was not added');

$node->stop;
done_testing();
