# What a storm has to tell in the end.
package Report;
use strict;
use warnings;
use Storm;
use Servers;

sub say_line { print "@_\n"; return }

sub read_counts
{
	my %counts = (checks => 0, wrong => 0, standby => 0, old => 0, absent => 0, absent_denied => 0);
	for my $path (glob "$Storm::DIR/checker.*")
	{
		open my $file, '<', $path or die "$path: $!";
		/^(\S+) (\d+)$/ and $counts{$1} += $2 while <$file>;
	}
	delete $counts{names};
	return \%counts;
}

# Faults by kind: how many, and how many of them ended as asked for.
sub read_faults
{
	my %faults;
	for my $path (glob "$Storm::DIR/faults.*")
	{
		open my $file, '<', $path or die "$path: $!";
		while (<$file>)
		{
			my ($kind, $how) = /^(.*)\|(\w+)$/ or next;
			++$faults{$kind}{all};
			++$faults{$kind}{$how};
		}
	}
	return \%faults;
}

# Servers die of nothing but this storm's own signal 9.
sub crashes
{
	my @crashes;
	for my $path (glob "$Servers::LOGS/*.server.log")
	{
		open my $file, '<', $path or die "$path: $!";
		while (<$file>) { push @crashes, $_ if /terminated by signal (?!9\b)|PANIC: |TRAP: / }
	}
	return @crashes;
}

# Says what was counted, and the first of what was wrong. Returns how many faults there were.
sub show
{
	my ($counts) = @_;
	my $faults = read_faults();
	my $all = 0;
	say_line(sprintf '%-40s %6s %6s', 'faults', 'all', 'done');
	for my $kind (sort keys %$faults)
	{
		$all += $faults->{$kind}{all};
		say_line(sprintf '  %-38s %6d %6d', $kind, $faults->{$kind}{all}, $faults->{$kind}{done} // 0);
	}
	say_line(sprintf 'checks: %d, of them on standbys %d, under old snapshots %d', @$counts{qw(checks standby old)});
	say_line(sprintf 'of %d names that were never added %.1f %% were denied',
		$counts->{absent}, 100 * $counts->{absent_denied} / ($counts->{absent} || 1));
	say_line('errors of checks: ' . join(', ', map { /^error:(.*)/ ? "$1 $counts->{$_}" : () } sort keys %$counts));
	if (open my $file, '<', "$Storm::DIR/wrong")
	{
		my @wrong = <$file>;
		print map { substr($_, 0, 300) =~ s/\n?$/\n/r } splice @wrong, 0, 20;
	}
	return $all;
}

1;
