# The readers of exported values in other languages answer as the server does. They and the C++ reader
# are given the same values, names and hostile bytes. Where the server says "no", so does a reader, and
# where it says "maybe"; but a reader asks where it cannot know the key.
#
# A reader is asked by a program of test/clients, with these arguments:
#
#   open NAMES FILE...      each file is a value, raw or as COPY wrote it
#   bytes NAMES LINES       each line is a value in hex
#   hex NAMES LINES         each line is a value in its text form
#   copy NAMES LINES        each line is a file that COPY wrote, in hex
#   misuse FILE             what must be an error; the file has the item "ada"
#   peak FILE               checks "ada" in it, and prints /proc/self/status
#
# The C++ reader has no text form, and the last two are not for it.
#
# NAMES has a name in each line, the hex of its UTF-8. For each value the program prints a line: a
# letter for each name (n: no, m: maybe, a: ask the server), or "refused".
#
# A language whose interpreter or compiler is not there, or too old, is skipped.
use strict;
use warnings FATAL => 'all';
use Cwd;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = getcwd();
my $folder = PostgreSQL::Test::Utils::tempdir();
$ENV{PYTHONDONTWRITEBYTECODE} = 1;
$ENV{PYTHONPATH} = "$root/clients/python";
$ENV{PYTHONUTF8} = 1;

# Runs a command in a folder. Returns whether it succeeded, what it printed, and its errors.
sub run_in
{
	my ($where, @command) = @_;
	my ($output, $error) = ('', '');
	chdir $where or die $!;
	my $ran = eval { IPC::Run::run(\@command, '<', \undef, '>', \$output, '2>', \$error) };
	chdir $root or die $!;
	return ($ran, $output, $error || $@);
}

# The first number of what a command prints, as one that can be compared: 3.11 is 3011. 0 where there
# is no such command.
sub version_of
{
	my ($ran, $output) = run_in($folder, @_);
	return $ran && $output =~ /(\d+)\.(\d+)/ ? $1 * 1000 + $2 : 0;
}

# Builds the Go program of a folder, from nothing but what is here.
sub build_go
{
	my ($where, $program) = @_;
	local %ENV = (
		%ENV, GOCACHE => "$folder/go-cache", GOPATH => "$folder/go", GOFLAGS => '', GOPROXY => 'off',
		GOTOOLCHAIN => 'local');
	return run_in($where, qw(go build -o), $program, '.');
}

# Writes lines to a file, and returns its path.
sub write_lines
{
	my ($name, @lines) = @_;
	open my $file, '>:raw', "$folder/$name" or die $!;
	print $file map { "$_\n" } @lines;
	close $file or die $!;
	return "$folder/$name";
}

#
# The readers: a name, and the command that asks it.
#
my %reader;
mkdir "$folder/js" or die $!;
mkdir "$folder/js/node_modules" or die $!;
symlink "$root/clients/javascript", "$folder/js/node_modules/bloomfilter-reader" or die $!;
symlink "$root/test/clients/check.mjs", "$folder/js/check.mjs" or die $!;
$ENV{NODE_OPTIONS} = '--preserve-symlinks --preserve-symlinks-main';
command_ok(
	[ $ENV{CXX} || 'c++', qw(-std=c++20 -O1 -Iinclude -Wall -Wextra -Werror -o), "$folder/check",
		'test/clients/check.cpp', '-lcrypto' ], 'the program in C++ compiles');
$reader{'C++'} = ["$folder/check"];

my $python = version_of(qw(python3 --version));
$reader{Python} = [ 'python3', "$root/test/clients/check.py" ] if $python >= 3008;
my $node_js = version_of(qw(node --version));
$reader{JavaScript} = [ 'node', "$folder/js/check.mjs" ] if $node_js >= 18000;
if (version_of(qw(go version)) >= 1019)
{
	my ($built, undef, $error) = build_go("$root/test/clients/go", "$folder/check-go");
	ok($built, 'the program in Go compiles') or diag($error);
	$reader{Go} = ["$folder/check-go"] if $built;
}
my @needs = (Python => 'python3 3.8', JavaScript => 'node 18', Go => 'go 1.19');
while (my ($language, $need) = splice @needs, 0, 2)
{
	next if $reader{$language};
  SKIP: { skip "$language is not tested: there is no $need or later", 1 }
}

# ask(MODE, ARGUMENTS): what each reader prints, by its name, in lines.
sub ask
{
	my (@arguments) = @_;
	my %said;
	for my $language (sort keys %reader)
	{
		next if $arguments[0] eq 'hex' && $language eq 'C++';
		my ($ran, $output, $error) = run_in($folder, @{ $reader{$language} }, @arguments);
		ok($ran, "$language: $arguments[0]") or diag(substr $error, 0, 2000);
		$said{$language} = [ split /\n/, $output ];
	}
	return %said;
}

#
# The names. The first half are members.
#
my $names = 10_000;

# A name for each number, different from all others.
sub name_of
{
	my ($i) = @_;
	return '' if $i == 0;
	my @kinds = (
		"user$i", "User$i", "UPPER.$i", "white \t\n space $i", "quo'te\"\\$i", "\x7f\x01$i",
		"\x{c5}sa$i", "\x{391}\x{3a3}$i", "\x{540d}\x{524d}$i", "\x{1f600}$i", "e\x{301}$i",
		"\x{130}\x{131}$i", "\x{212a}$i", "\x{e9}\x{fd}$i", "\x{ffff}\x{10ffff}$i", chr(0x80) . $i);
	# Around the ends of the blocks of MD5, with and without the two characters before the key of a
	# further digest, and around what the C++ reader lowers by itself.
	my @lengths = (50 .. 66, 117 .. 129, 1022 .. 1026);
	my $kind = $i % (2 * @kinds);
	return $kinds[$kind] if $kind < @kinds;
	my $length = $lengths[ $i % @lengths ];
	return substr(($i % 3 ? 'a' : 'Z') . "$i-" . 'Xy' x 600, 0, $length);
}
my @names = map { name_of($_) } 0 .. $names - 1;
my %different = map { $_ => 1 } @names;
is(scalar keys %different, $names, "$names names");
my @ascii = map { !/[^\0-\x7f]/ } @names;
my @bytes = map { my $name = $_; utf8::encode($name); $name } @names;
my @hex = map { unpack 'H*', $_ } @bytes;
my $names_file = write_lines('names', @hex);

# Every 230th name, all kinds, for values of which there are many.
my @few = grep { $_ % 230 == 0 || $_ < 32 } 0 .. $names - 1;
my $few_file = write_lines('few', @hex[@few]);

#
# The server, and what it says of values.
#
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
$node->append_conf('postgresql.conf', "fsync = off\nclient_encoding = 'UTF8'");
$node->start;

# Tables and functions of a database, for the names with these numbers.
sub prepare
{
	my ($database, @numbers) = @_;
	my $file = write_lines("names.$database", map { "$_\t$hex[$_]" } @numbers);
	$node->safe_psql($database, qq{
create extension bloomfilter;
create table hex (id int, name text);
copy hex from '$file';
create table names as select id, convert_from(decode(name, 'hex'), 'UTF8') as name from hex;
create table few as select * from names where id = any ('{@{[join ',', @few]}}');
-- The canary of values of this database, as bytes.
create function canary(normalization text) returns bytea language sql as
\$\$ select substr(bloom_empty(1, 0.01, normalization)::bytea, 9, 4) \$\$;
-- A value of any shape with the first names.
create function build(k int, log2 int, chunks int, normalization text, members int) returns bloomfilter
language plpgsql as \$\$
declare
	value bloomfilter := ('\\x01'::bytea || decode(lpad(to_hex(k), 2, '0'), 'hex') || decode(lpad(to_hex(log2), 2, '0'), 'hex')
		|| case normalization when 'none' then '\\x00' else '\\x01' end::bytea || int4send(chunks)
		|| canary(normalization) || '\\x00000000' || decode(repeat('00', chunks * (1 << log2 - 3)), 'hex'))::bloomfilter;
	added text;
begin
	for added in select name from names where id < members loop
		value := value + added;
	end loop;
	return value;
end \$\$;
-- What the server says of all names: a letter for each.
create function said(value bloomfilter) returns text language sql as
\$\$ select string_agg(case when value \@> name then 'm' else 'n' end, '' order by id) from names \$\$;
-- The same of bytes and of few names.
create function said_of_bytes(bytes bytea) returns text language plpgsql as \$\$
declare
	value bloomfilter;
begin
	value := bytes::bloomfilter;
	return (select string_agg(case when value \@> name then 'm' else 'n' end, '' order by id) from few);
exception when invalid_binary_representation then
	return 'refused';
end \$\$;
});
	return;
}
prepare('postgres', 0 .. $names - 1);

# What a reader has to say where the server has said `server` of a value with the header `header` and
# the names with these numbers.
sub expected
{
	my ($language, $server, $header, @numbers) = @_;
	return $server if $server eq 'refused';
	my ($normalization, $canary) = unpack 'x3 C x4 N', $header;
	my $knows_all = $normalization == 0 && $canary == 0xe896d102;
	my $position = 0;
	for my $number (@numbers)
	{
		# The C++ reader has no memory to lower a long name in.
		my $knows = $knows_all || $ascii[$number]
		  && ($language ne 'C++' || $normalization == 0 || length $names[$number] <= 1024);
		substr($server, $position, 1) = 'a' unless $knows;
		++$position;
	}
	return $server;
}

# Compares what the readers have said of values with what the server has. Headers and server's words
# are in the order of the values.
sub compare
{
	my ($what, $said, $headers, $server, @numbers) = @_;
	for my $language (sort keys %$said)
	{
		my @lines = @{ $said->{$language} };
		is(scalar @lines, scalar @$server, "$language: $what: each value is answered");
		my @wrong;
		for my $i (0 .. $#$server)
		{
			my $line = $lines[$i] // 'nothing';
			my $expected = expected($language, $server->[$i], $headers->[$i], @numbers);
			next if $line eq $expected;
			# A reader opens a value of a normalization that it does not know. Then it asks.
			next if $expected eq 'refused' && $language ne 'C++'
			  && ord(substr $headers->[$i], 3, 1) > 1 && $line =~ /^a+$/;
			push @wrong, unpack('H*', $headers->[$i]) . ": $line\nexpected: $expected";
		}
		ok(!@wrong, "$language: $what: as the server says")
		  or diag(scalar(@wrong) . " wrong:\n" . join "\n", map { substr $_, 0, 400 } @wrong[0 .. ($#wrong < 4 ? $#wrong : 4)]);
	}
	return;
}

#
# Values of all shapes: each k from 1 to 32, and each size of a chunk twice under each normalization.
# They are about half full, so that there is something to be mistaken in.
#
my $members = $names / 2;
my @shapes = map {
	my $log2 = 6 + $_ % 8;
	[ $_, $log2, 1 + int($members * $_ * 1.44 / 2**$log2), $_ / 8 & 1 ? 'lower' : 'none', $members ]
} 1 .. 32;
push @shapes, [ 7, 6, 1, $_, 6 ], [ 7, 13, 1, $_, 800 ], [ 10, 9, 1024, $_, $members ] for qw(none lower);
push @shapes, [ 7, 13, 131, 'none', $members ], [ 1, 6, 65536, 'lower', $members ];
my (@files, @headers, @server);
for my $shape (@shapes)
{
	my $file = "$folder/value" . @files;
	my ($k, $log2, $chunks, $normalization, $count) = @$shape;
	push @server, $node->safe_psql('postgres', qq{
create table value as select build($k, $log2, $chunks, '$normalization', $count) as value;
select said(value) from value;
copy (select value::bytea from value) to '$file' (format binary);
drop table value});
	my $copied = slurp_file($file);
	push @headers, substr $copied, 25, 16;
	# Every other one without what COPY puts around it.
	if (@files % 2)
	{
		unlink $file or die $!;
		append_to_file($file, substr $copied, 25, -2);
	}
	push @files, $file;
}
is(scalar(grep { substr($server[$_], 0, $shapes[$_][4]) =~ /n/ } 0 .. $#shapes), 0, 'the server denies no member');
is(scalar(grep { (my $others = $server[$_]) =~ tr/n// < 2 } 0 .. $#shapes), 0, 'and denies others');
my %said = ask('open', $names_file, @files);
compare('shapes', \%said, \@headers, \@server, 0 .. $names - 1);
my $asked = () = $said{'C++'}[1] =~ /a/g;
is($asked, 0, 'everything is known of a value of "none" in UTF8');

#
# Hostile bytes.
#
my %base = map {
	my $value = $node->safe_psql('postgres', "select encode(build(9, 8, 6, '$_', 40)::bytea, 'hex')");
	$_ => pack 'H*', $value;
} qw(none lower);
srand 1;
my @hostile = ('', 'x');
for my $value (values %base)
{
	push @hostile, map { substr $value, 0, $_ } 1 .. 16, length($value) - 1;
	push @hostile, "$value\0", $value . substr($value, 16, 32), substr($value, 0, -32);
	for my $at (0 .. 15)
	{
		for my $byte (0 .. 255)
		{
			my $mutated = $value;
			substr($mutated, $at, 1) = chr $byte;
			push @hostile, $mutated;
		}
	}
}
# Another normalization with the canary of this one.
push @hostile, substr($base{none}, 0, 8) . substr($base{lower}, 8);
push @hostile, substr($base{lower}, 0, 8) . substr($base{none}, 8);
# Headers that could be right, of values as long as they say, or nearly; and noise.
for (1 .. 400)
{
	my ($k, $log2, $chunks) = (int rand 34, 5 + int rand 10, int rand 5);
	my $canary = (0xe896d102, 0xab4ed2e3, 0xb663ac63, 0xe896d103, int rand 2**32)[ rand 5 ];
	my $length = ($chunks << $log2) / 8 + (rand() < 0.1 ? int(rand 3) - 1 : 0);
	my $bits = join '', map { chr(rand() < 0.7 ? 255 : int rand 256) } 1 .. ($length < 5000 ? $length : 0);
	push @hostile, pack('C4 N3', 1, $k, $log2, int rand 2.1, $chunks, $canary, rand() < 0.05 ? 1 : 0) . $bits;
	push @hostile, join '', map { chr int rand 256 } 1 .. int rand 64;
}
# Sizes whose product overflows.
push @hostile, map { pack('C4 N3', 1, 7, $_->[0], 0, $_->[1], 0xe896d102, 0) . "\xff" x 64 }
  map { my $log2 = $_; map { [ $log2, $_ ] } 2**31, 2**31 - 1, 2**32 - 1, 2**25, 2**26, 2**18 + 1, 2**29, 2**19 } 6 .. 13;
@hostile = map { unpack 'H*', $_ } @hostile;
my $hostile_file = write_lines('hostile', @hostile);
my $numbered = write_lines('hostile.numbered', map { "$_\t$hostile[$_]" } 0 .. $#hostile);
@server = split /\n/, $node->safe_psql('postgres', qq{
create table hostile (id int, hex text);
copy hostile from '$numbered';
set client_min_messages = error;
select said_of_bytes(decode(hex, 'hex')) from hostile order by id});
my $accepted = grep { $_ ne 'refused' } @server;
cmp_ok($accepted, '>', 200, "the server accepts $accepted of " . scalar(@server) . ' hostile values');
cmp_ok($accepted, '<', @server / 2, 'and refuses most');
@headers = map { substr pack('H*', $_) . "\0" x 16, 0, 16 } @hostile;
%said = ask('bytes', $few_file, $hostile_file);
compare('hostile bytes', \%said, \@headers, \@server, @few);

# The same as files, some of them.
my @sample = grep { $_ % 40 == 0 } 0 .. $#hostile;
my @sample_files = map {
	my $file = "$folder/hostile$_";
	append_to_file($file, pack 'H*', $hostile[$_]);
	$file
} @sample;
%said = ask('open', $few_file, @sample_files);
compare('hostile files', \%said, [ @headers[@sample] ], [ @server[@sample] ], @few);

# The text form, and what is none.
my $text = '\\x' . unpack 'H*', $base{none};
my $of_base = $node->safe_psql('postgres', qq{select said_of_bytes('$text')});
my @texts = ($text, uc($text) =~ s/X/x/r, substr($text, 2), substr($text, 0, -1), "$text ", substr($text, 0, -2) . ' 0',
	substr($text, 0, -2) . '0g', '\\x', "$text\\x", '\\X' . substr($text, 2), ' ' . $text);
%said = ask('hex', $few_file, write_lines('texts', @texts));
compare('text form', \%said, [ (substr $base{none}, 0, 16) x @texts ], [ $of_base, $of_base, ('refused') x (@texts - 2) ], @few);

# A file that COPY wrote, and what is none.
my $copy = "PGCOPY\n\xff\r\n\0" . pack('N2 n N', 0, 0, 1, length $base{none}) . $base{none} . "\xff\xff";
my @copies = ($copy);
for my $at (0 .. 24, length($copy) - 2, length($copy) - 1)
{
	my $mutated = $copy;
	substr($mutated, $at, 1) = chr(ord(substr $copy, $at, 1) ^ 1);
	push @copies, $mutated;
}
push @copies, map { substr $copy, 0, $_ } 0 .. 42, length($copy) - 2, length($copy) - 1;
push @copies, "$copy\0", $copy . $copy, substr($copy, 0, -2) . pack('n N', 1, 4) . "abcd\xff\xff",
  substr($copy, 0, 21) . pack('N', 0xffffffff) . "\xff\xff", $base{none};
%said = ask('copy', $few_file, write_lines('copies', map { unpack 'H*', $_ } @copies));
compare('files of COPY', \%said, [ (substr $base{none}, 0, 16) x @copies ], [ $of_base, ('refused') x (@copies - 1) ], @few);

#
# Databases of other encodings: what is beyond ASCII has other bytes there.
#
my @narrow = grep { $names[$_] !~ /[^\0-\x{ff}]/ && $names[$_] !~ /[\x80-\x9f]/ } @few;
my @plain = grep { $ascii[$_] } @few;
for my $case ([ 'LATIN1', 'none', @narrow ], [ 'LATIN1', 'lower', @narrow ], [ 'EUC_JP', 'none', @plain ], [ 'SQL_ASCII', 'none', @plain ])
{
	my ($encoding, $normalization, @numbers) = @$case;
	my $database = lc "$encoding$normalization";
	$node->safe_psql('postgres', "create database $database encoding $encoding locale 'C' template template0");
	prepare($database, @numbers);
	my ($hex, $answer) = split /\|/, $node->safe_psql($database,
		"select encode(v::bytea, 'hex'), said_of_bytes(v::bytea) from build(8, 10, 3, '$normalization', $members) v");
	my $file = write_lines($database, @hex[@numbers]);
	%said = ask('bytes', $file, write_lines("$database.value", $hex));
	compare("$encoding, $normalization", \%said, [ substr pack('H*', $hex), 0, 16 ], [$answer], @numbers);
}

#
# No text that the server could hold: NUL, half a surrogate pair, bytes that are no UTF-8.
#
my @odd = ('00', '61646100', '0061', 'eda080', '616461edb080', 'eda080eda080');
%said = ask('bytes', write_lines('odd', @odd), write_lines('one', map { unpack 'H*', $_ } values %base));
delete $said{'C++'};
is_deeply($said{$_}, [ ('a' x @odd) x 2 ], "$_: no text: ask the server") for sort keys %said;

# A normalization of a later version, with whatever it may have in its last four bytes.
my $later = pack('C4 N3', 1, 7, 6, 200, 1, 0x12345678, 0x9abcdef0) . "\0" x 8;
%said = ask('bytes', $few_file, write_lines('later', unpack 'H*', $later));
is_deeply(delete $said{'C++'}, ['refused'], 'C++: a later normalization is refused');
is_deeply($said{$_}, [ 'a' x @few ], "$_: a later normalization: ask the server") for sort keys %said;

#
# A value as large as they get, with more chunks than would fit a product of 53 bits. It is not
# loaded: 256 MiB would show.
#
my $zeros = "$folder/zeros";
my $chunks = 2**25 - 1;
open my $sparse, '>:raw', $zeros or die $!;
print $sparse pack 'C4 N3', 1, 32, 6, 0, $chunks, 0xe896d102, 0;
truncate $sparse, 16 + $chunks * 8 or die $!;
close $sparse or die $!;
my $added = join ' + ', map { "'large $_'" } 1 .. 4;
$node->safe_psql('postgres', qq{copy (select (pg_read_binary_file('$zeros')::bloomfilter + $added)::bytea)
	to '$folder/large' (format binary)});
my $large_names = write_lines('large.names', map { unpack 'H*', "large $_" } 1 .. 400);
%said = ask('open', $large_names, "$folder/large");
is_deeply($said{$_}, [ 'm' x 4 . 'n' x 396 ], "$_: a value of 256 MiB") for sort keys %said;
for my $language (grep { $_ ne 'C++' && -e '/proc/self/status' } sort keys %reader)
{
	my ($ran, $output, $error) = run_in($folder, @{ $reader{$language} }, 'peak', "$folder/large");
	my ($peak) = $output =~ /^definitely not\b.*^VmHWM:\s+(\d+) kB/ms or diag($error);
	cmp_ok($peak // 1e9, '<', 128 * 1024, "$language: and it is not loaded");
}
unlink $zeros, "$folder/large";

#
# What must be an error.
#
$node->safe_psql('postgres', qq{copy (select (bloom_empty(100) + 'ada')::bytea) to '$folder/ada' (format binary)});
for my $language (grep { $_ ne 'C++' } sort keys %reader)
{
	my $file = "$folder/ada.$language";
	append_to_file($file, slurp_file("$folder/ada"));
	my ($ran, $output, $error) = run_in($folder, @{ $reader{$language} }, 'misuse', $file);
	ok($ran, "$language: misuse") or diag($error);
	like($output, qr/^answer: right\n/, "$language: a value is read");
	like($output, qr/changed: right\ntruncated: right\nclosed: right/, "$language: a file that changes is noticed");
	unlike($output, qr/WRONG/, "$language: all as it must be") or diag($output);
}

#
# The examples of docs/format.md run, and print what the program in C++ does.
#
$node->safe_psql('postgres', qq{copy (select bloom_agg(name, 1e6, 0.001, 'lower')::bytea
	from (values ('Ada'), ('grace')) users (name)) to '$folder/taken.bin' (format binary)});
my $page = slurp_file('docs/format.md');
my ($printed) = $page =~ /^```text\n(ada: .*?)^```/ms;
my %example = map { $_ => $page =~ /^```$_\n(.*?)^```/ms } qw(python js go);
my %run = (
	Python => sub { ('python3', write_lines('example.py', $example{python})) },
	JavaScript => sub { ('node', write_lines('js/example.mjs', $example{js})) },
	Go => sub {
		mkdir "$folder/example" or die $!;
		write_lines('example/go.mod', slurp_file('test/clients/go/go.mod') =~ s{\.\./\.\./\.\./}{$root/}r);
		write_lines('example/main.go', $example{go});
		build_go("$folder/example", "$folder/example-go");
		return "$folder/example-go";
	});
for my $language (grep { $reader{$_} } sort keys %run)
{
	my ($ran, $output, $error) = run_in($folder, $run{$language}->());
	ok($ran, "$language: the example in docs/format.md runs") or diag($error);
	is($output, $printed, "$language: and prints what the page says");
}

$node->stop;

#
# The packages are built, and work. Nothing is uploaded.
#
my ($version) = slurp_file('bloomfilter.control') =~ /^default_version = '(.*)'$/m;
like(slurp_file('clients/python/pyproject.toml'), qr/^version = "\Q$version\E"$/m, 'the version of the wheel');
like(slurp_file('clients/python/bloomfilter_reader.py'), qr/^__version__ = "\Q$version\E"$/m, 'of the module');
like(slurp_file('clients/javascript/package.json'), qr/^  "version": "\Q$version\E",$/m, 'of the npm package');
is(slurp_file("clients/$_/LICENSE"), slurp_file('LICENSE'), "the license of $_") for qw(python javascript go);
SKIP:
{
	skip 'the wheel is not built: python3 has no pip, setuptools 61 and wheel', 3
	  unless $reader{Python} && (run_in($folder, 'python3', '-c',
		'import pip, wheel, setuptools; assert int(setuptools.__version__.split(".")[0]) >= 61'))[0];
	# Building leaves files beside the source.
	system_or_bail('cp', '-r', 'clients/python', "$folder/python");
	my ($built, undef, $error) = run_in($folder, qw(python3 -m pip wheel --quiet --no-deps --no-index
		--no-build-isolation --wheel-dir wheels ./python));
	ok($built, 'the wheel is built') or diag($error);
	local $ENV{PYTHONPATH} = "$folder/wheels/bloomfilter_reader-$version-py3-none-any.whl";
	(my $ran, my $output, $error) = run_in($folder, 'python3', '-c', 'import bloomfilter_reader as r; print(r.__file__)');
	like($output, qr/\.whl/, 'and holds the module');
	($ran, $output, $error) = run_in($folder, 'python3', "$folder/example.py");
	is($output, $printed, 'which works') or diag($error);
}
SKIP:
{
	skip 'the npm package is not built: there is no npm', 3 unless $reader{JavaScript} && version_of(qw(npm --version));
	local %ENV = (%ENV, npm_config_cache => "$folder/npm", npm_config_update_notifier => 'false');
	my ($built, undef, $error) = run_in($folder, qw(npm pack --silent --offline), "$root/clients/javascript");
	ok($built, 'the npm package is built') or diag($error);
	mkdir "$folder/packed" or die $!;
	mkdir "$folder/packed/node_modules" or die $!;
	my ($ran, $output) = run_in($folder, qw(tar -xvzf), "bloomfilter-reader-$version.tgz", '-C', 'packed');
	is(join(' ', sort split /\n/, $output), join(' ', map { "package/$_" }
		qw(LICENSE README.md bloomfilter-reader.d.ts bloomfilter-reader.js package.json)), 'and holds what it should');
	rename "$folder/packed/package", "$folder/packed/node_modules/bloomfilter-reader" or die $!;
	write_lines('packed/example.mjs', $example{js});
	($ran, $output, $error) = run_in($folder, 'node', "$folder/packed/example.mjs");
	is($output, $printed, 'which works') or diag($error);
}

done_testing();
