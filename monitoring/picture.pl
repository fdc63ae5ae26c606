# Draws a Grafana dashboard without Grafana: asks a Prometheus what the dashboard's panels ask, and has
# gnuplot lay them out as the dashboard does. Prints SVG. picture.sh calls it.
#
#   perl picture.pl dashboard.json http://127.0.0.1:9090 FROM TO RATE_INTERVAL
#
# FROM and TO are seconds since 1970; RATE_INTERVAL is what $__rate_interval stands for. It knows the two
# kinds of panels that dashboard.json has, timeseries and table. It fails if a query fails, or if a
# panel shows nothing at all.
use strict;
use warnings FATAL => 'all';
use File::Temp;
use HTTP::Tiny;
use JSON::PP;
use List::Util qw(max);
use POSIX qw(floor);

my ($file, $prometheus, $from, $to, $rate_interval) = @ARGV;
die "usage: picture.pl DASHBOARD PROMETHEUS FROM TO RATE_INTERVAL\n" unless defined $rate_interval;
my ($width, $row) = (1200, 28);    # pixels: of the picture, and of a row of Grafana's grid
my @colors = map { "#$_" } qw(2166ac e08214 b2182b 4d9221 7b3294 636363);
my $points = 75;                   # of a line: more would only make the file larger

open my $input, '<', $file or die "$file: $!\n";
my $dashboard = decode_json(do { local $/; <$input> });
my $instance = ask('label/instance/values', 'match[]' => 'bloom_filter_ready')->[0]
  // die "Prometheus has no filter\n";

# What Prometheus answers to a call of its HTTP interface.
sub ask
{
	my ($call, @parameters) = @_;
	my $http = HTTP::Tiny->new;
	my $answer = $http->get("$prometheus/api/v1/$call?" . $http->www_form_urlencode([@parameters]));
	die "$call @parameters: $answer->{status} $answer->{content}\n" unless $answer->{success};
	return decode_json($answer->{content})->{data};
}

# A query of the dashboard, with Grafana's variables filled in: all filters of the first exporter.
sub expression
{
	my ($target) = @_;
	my %value = (instance => $instance, filter => '.*', __rate_interval => $rate_interval);
	return $target->{expr} =~ s/\$(\w+)/$value{$1} \/\/ die "unknown variable $1\n"/ger;
}

# A text between gnuplot's double quotes.
sub quoted { my ($text) = @_; return '"' . $text =~ s/(["\\])/\\$1/gr . '"' }

# By how much a unit of Grafana is divided here, and gnuplot's format for it.
sub unit
{
	my ($unit) = @_;
	return (0.01, '%g %%') if $unit eq 'percentunit';
	return (60, '%g min') if $unit eq 's';
	return (1e6, '%.1f MB') if $unit eq 'bytes';
	return (1, '%g/s') if $unit eq 'cps';
	die "unknown unit $unit\n";
}

# A round step that gives an axis up to this value four or five marks.
sub marks
{
	my ($top) = @_;
	my $power = 10**floor(log($top / 4) / log 10);
	return $power * (grep { $_ * $power >= $top / 5 } 1, 2, 5, 10)[0];
}

# The lines of a panel: a hash each, with its title and its points, as pairs of minute and value.
# Unknown values leave a gap.
sub series
{
	my ($panel, $divisor) = @_;
	my @series;
	for my $target (@{ $panel->{targets} })
	{
		my $step = ($to - $from) / $points;
		my $result = ask('query_range', query => expression($target), start => $from, end => $to,
			step => $step)->{result};
		for my $line (@$result)
		{
			my $title = $target->{legendFormat} =~ s/\{\{(\w+)\}\}/$line->{metric}{$1}/gr;
			my @values = map { [ ($_->[0] - $from) / 60, $_->[1] eq 'NaN' ? 'NaN' : $_->[1] / $divisor ] }
			  @{ $line->{values} };
			push @series, { title => $title, values => \@values }
			  if grep { $_->[1] ne 'NaN' } @values;
		}
	}
	die "the panel \"$panel->{title}\" shows nothing\n" unless @series;
	return sort { $a->{title} cmp $b->{title} } @series;
}

# Prints what draws a panel of lines, with its thresholds.
sub draw_timeseries
{
	my ($panel) = @_;
	my $defaults = $panel->{fieldConfig}{defaults};
	my ($divisor, $format) = unit($defaults->{unit});
	my @series = series($panel, $divisor);
	my $highest = max(map { $_->[1] } grep { $_->[1] ne 'NaN' } map { @{ $_->{values} } } @series);
	my $top = defined $defaults->{max} ? $defaults->{max} / $divisor : 1.15 * $highest || 1;
	my @plots;
	for my $number (0 .. $#series)
	{
		print "\$data$number << END\n", (map { sprintf "%.2f %.5g\n", @$_ } @{ $series[$number]{values} }), "END\n";
		my $dash = $series[$number]{title} =~ /, (?:target|when made)$/ ? ' dashtype 2' : '';
		push @plots, "\$data$number with lines lw 1.5 lc rgb '$colors[$number % @colors]'$dash title "
		  . quoted($series[$number]{title});
	}
	for my $step (grep { defined $_->{value} } @{ $defaults->{thresholds}{steps} })
	{
		my $height = $step->{value} / $divisor;
		push @plots, "$height with lines lc rgb '$step->{color}' dashtype 4 notitle" if $height < $top;
	}
	printf "set format y '%s'\nset yrange [0:%g]\nset ytics %g\n", $format, $top, marks($top);
	printf "set xrange [0:%.2f]\nset xtics 1\nset format x '%%g min'\n", ($to - $from) / 60;
	print 'plot ', join(", \\\n", @plots), "\n";
}

# A value as a cell shows it.
sub cell
{
	my ($value, $unit) = @_;
	return '-' if !defined $value || $value eq 'NaN';
	return $value >= 60 ? sprintf('%.1f min', $value / 60) : sprintf('%.0f s', $value) if $unit eq 's';
	1 while $unit eq 'locale' && $value =~ s/^(\d+)(\d{3})/$1,$2/;
	return $value;
}

# Prints what draws a table: a row a filter, a column a query, in the dashboard's order.
sub draw_table
{
	my ($panel) = @_;
	my ($organize) = map { $_->{options} } grep { $_->{id} eq 'organize' } @{ $panel->{transformations} };
	my (%rows, %unit, %texts);
	for my $override (@{ $panel->{fieldConfig}{overrides} })
	{
		for my $property (@{ $override->{properties} })
		{
			$unit{ $override->{matcher}{options} } = $property->{value} if $property->{id} eq 'unit';
			$texts{ $override->{matcher}{options} } = $property->{value}[0]{options} if $property->{id} eq 'mappings';
		}
	}
	for my $target (@{ $panel->{targets} })
	{
		for my $line (@{ ask('query', query => expression($target), time => $to)->{result} })
		{
			my $cells = $rows{ $line->{metric}{filter} } //= {};
			%$cells = (%$cells, %{ $line->{metric} }, "Value #$target->{refId}" => $line->{value}[1]);
		}
	}
	die "the table \"$panel->{title}\" is empty\n" unless %rows;
	my $order = $organize->{indexByName};
	my @columns = sort { $order->{$a} <=> $order->{$b} } grep { !$organize->{excludeByName}{$_} } keys %$order;
	my $label = sub {
		my ($column, $line, $text, $font) = @_;
		printf "set label %s at graph %.3f, %.3f font '%s' noenhanced\n", quoted($text),
		  0.01 + $column / @columns, 0.85 - 0.9 * $line / (1 + keys %rows), $font;
	};
	for my $number (0 .. $#columns)
	{
		my $name = $organize->{renameByName}{ $columns[$number] } // $columns[$number];
		$label->($number, 0, $name, 'sans-serif:Bold,12');
		my $line = 0;
		for my $filter (sort keys %rows)
		{
			my $value = $rows{$filter}{ $columns[$number] };
			my $text = defined $value && $texts{$name}{$value} ? $texts{$name}{$value}{text} : cell($value, $unit{$name} // '');
			$label->($number, ++$line, $text, 'sans-serif,12');
		}
	}
	print "unset tics\nset xrange [0:1]\nset yrange [0:1]\nplot NaN notitle\nset tics\nunset label\n";
}

# Prints the whole script for gnuplot.
sub draw
{
	my $height = max(map { $_->{gridPos}{y} + $_->{gridPos}{h} } @{ $dashboard->{panels} });
	printf "set terminal svg size %d,%d font 'sans-serif,12' background '#ffffff'\n", $width, $height * $row;
	print "set encoding utf8\nset multiplot\nset grid lc rgb '#dddddd'\nset border lc rgb '#999999'\n";
	print "set key below Left reverse samplen 1.5 spacing 0.8 width -4 font ',10' noenhanced\n";
	for my $panel (@{ $dashboard->{panels} })
	{
		my ($x, $y, $w, $h) = @{ $panel->{gridPos} }{qw(x y w h)};
		printf "set origin %.4f, %.4f\nset size %.4f, %.4f\n", $x / 24, 1 - ($y + $h) / $height, $w / 24, $h / $height;
		print 'set title ', quoted($panel->{title}), " font 'sans-serif:Bold,13'\n";
		if ($panel->{type} eq 'table') { draw_table($panel) } else { draw_timeseries($panel) }
	}
	print "unset multiplot\n";
}

# What gnuplot makes of the script, without the many groups that it leaves empty.
my $script = File::Temp->new;
select $script;
draw();
close $script;
my $svg = qx(gnuplot '$script');
die "gnuplot failed\n" if $?;
$svg =~ s{<g [^>]*>\s*</g>\n?}{}g;
print STDOUT $svg;
