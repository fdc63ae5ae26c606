# A server that dies as it does when the machine loses its power, but for the disk's cache.
package Crash;
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(usleep);
use Exporter 'import';
our @EXPORT = qw(kill_server);

# Ends every process of the server at once, so that none of them can tidy up, and waits until the
# system has let go of them.
sub kill_server
{
	my ($node) = @_;
	my @processes = split /\n/, $node->safe_psql('postgres', 'select pid from pg_stat_activity');
	push @processes, (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	$node->kill9;
	kill 9, @processes;
	for (1 .. 100 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return unless kill 0, @processes;
		usleep(10_000);
	}
	die 'the server does not die';
}

1;
