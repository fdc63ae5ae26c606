# What the processes of a storm share: its filters, its state, the names on record, connections.
#
# State and record are files outside the database, since a database that lost names would not
# tell. The state is one line, replaced as a whole; a record is one file a client, only appended to:
#   A FILTER TIME NAME...   the commit of these names' add was acknowledged
#   D FILTER TIME NAME      this name may leave from now on
#   E EPOCH                 the client has seen that the primary is another
package Storm;
use strict;
use warnings;
use utf8;
use DBI;
use Time::HiRes qw(sleep time);
use Exporter 'import';
our @EXPORT = qw(%FILTERS $DIR state publish connect_to append_line wrong literal chance pick
  parent_gone);

our $DIR;

# "fixed" keeps its chunks, as the article's update needs; "trusting" goes on after a failover.
# Small enough to be rewritten often, large enough that false maybes do not hide what is lost.
our %FILTERS = (
	small => { normalization => 'lower', capacity => 30_000 },
	trust => { normalization => 'lower', capacity => 150_000, trusting => 1 },
	plain => { normalization => 'none', capacity => 300_000, trusting => 1 },
	fixed => { normalization => 'lower', capacity => 2_000_000, fixed => 1 });

sub state
{
	open my $file, '<', "$DIR/state" or die "state: $!";
	my %state = map { split /=/, $_, 2 } split ' ', scalar <$file>;
	$state{standbys} = [ split /,/, $state{standbys} // '' ];
	return \%state;
}

sub publish
{
	my (%state) = @_;
	$state{standbys} = join ',', @{ $state{standbys} };
	open my $file, '>', "$DIR/state.new" or die "state: $!";
	print $file join(' ', map { "$_=$state{$_}" } sort keys %state), "\n";
	close $file or die "state: $!";
	rename "$DIR/state.new", "$DIR/state" or die "state: $!";
	return;
}

# A connection that raises what fails; undef where there is none to be had.
sub connect_to
{
	my ($port, %options) = @_;
	my $database = $options{database} // 'storm';
	my $connection = eval {
		DBI->connect("dbi:Pg:dbname=$database;host=$ENV{PGHOST};port=$port", 'postgres', '',
			{ RaiseError => 1, PrintError => 0, PrintWarn => 1, AutoCommit => 1, pg_enable_utf8 => 1,
				pg_server_prepare => 0 });
	} or return;
	my $timeout = $options{timeout} // '30s';
	return unless eval {
		$connection->do("set client_min_messages = warning; set statement_timeout = '$timeout'");
	};
	return $connection;
}

# In one write, so that no reader sees a part of another's line.
sub append_line
{
	my ($file, $line) = @_;
	utf8::encode($line);
	my $written = syswrite $file, "$line\n";
	die "record: $!" unless defined $written && $written == length($line) + 1;
	return;
}

# What ends the storm.
sub wrong
{
	my ($what) = @_;
	open my $file, '>>', "$DIR/wrong" or die "wrong: $!";
	append_line($file, sprintf 'at %.3f, %s', time, $what);
	return;
}

# An array of names.
sub literal { return '{' . join(',', @_) . '}' }

sub chance { return rand() < $_[0] }
sub pick { return $_[ rand @_ ] }

# Whether the process that started this one is no more: then nobody will tell it to end.
my $parent = getppid;
sub set_parent { $parent = getppid; return }
sub parent_gone { return getppid != $parent }

# ---- The names on record, as one reader has read them

package Storm::Record;
use strict;
use warnings;

# Names go in blocks, as literals of arrays that are made once. Names that may leave ("back...")
# stand apart, each with the number of times it came or left.
sub new
{
	my ($class, $block_size) = @_;
	my %filters = map { $_ => { blocks => [], open => [], fresh => [], back => {} } } keys %Storm::FILTERS;
	return bless { filters => \%filters, at => {}, epoch => {}, names => 0, block_size => $block_size },
	  $class;
}

# Reads what has come. Afterwards $record->{filters}{FILTER}{fresh} are the names that came since
# the caller emptied it.
sub poll
{
	my ($self) = @_;
	for my $path (glob "$Storm::DIR/adder.*")
	{
		my $size = -s $path;
		my $at = $self->{at}{$path} // 0;
		next if $size == $at;
		open my $file, '<', $path or die "$path: $!";
		seek $file, $at, 0;
		read $file, my $bytes, $size - $at;
		# the last line may still be under way
		my $end = rindex($bytes, "\n") + 1;
		$self->{at}{$path} = $at + $end;
		$bytes = substr $bytes, 0, $end;
		utf8::decode($bytes);
		$self->line($path, split / /) for split /\n/, $bytes;
	}
	return;
}

sub line
{
	my ($self, $path, $kind, $filter, $time, @names) = @_;
	if ($kind eq 'E') { $self->{epoch}{$path} = $filter; return }
	my $of = $self->{filters}{$filter};
	$self->{names} += @names if $kind eq 'A';
	for my $name (@names)
	{
		if ($name =~ /^back/)
		{
			my $back = $of->{back}{$name} //= { changes => 0 };
			++$back->{changes};
			$back->{there} = $kind eq 'A';
		}
		else { push @{ $of->{open} }, $name }
		push @{ $of->{fresh} }, $name if $kind eq 'A';
	}
	while (@{ $of->{open} } >= $self->{block_size})
	{
		push @{ $of->{blocks} }, Storm::literal(splice @{ $of->{open} }, 0, $self->{block_size});
	}
	return;
}

# Every name of a filter that is there: literals of arrays.
sub literals
{
	my ($self, $filter) = @_;
	my $of = $self->{filters}{$filter};
	my @rest = (@{ $of->{open} }, grep { $of->{back}{$_}{there} } keys %{ $of->{back} });
	return @{ $of->{blocks} }, @rest ? Storm::literal(@rest) : ();
}

1;
