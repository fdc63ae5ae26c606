# An extension that was updated from an older release is the same as one that was made anew. The install
# script of each release stays in the tree, sql/bloomfilter--OLD.sql, and is updated here to the
# version at hand. So that a script that forgets something does not pass, the test also makes up older
# versions, each of which lacks one thing, with a script that brings it and one that forgets it.
use strict;
use warnings FATAL => 'all';
use File::Basename;
use File::Copy;
use File::Path;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $script = slurp_file('sql/bloomfilter.sql');
my ($version) = slurp_file('bloomfilter.control') =~ /^default_version = '(.*)'/m;

# What a release may bring, by its kind: a part of the install script, and what an older release had in
# its place. The update is the part itself, or what is given as the third.
my %changes = (
	'a function' => [
		statements('create function bloom_fold\(', 'comment on function bloom_fold\('), sub { '' } ],
	'an operator' => [
		statements('create operator \+ \(leftarg = bit,', 'comment on operator \+ \(bit,'), sub { '' } ],
	'a cast' => [
		statements('create cast \(bytea as', 'comment on cast \(bytea as'), sub { '' } ],
	'a comment' => [ statements('comment on function bloom_suspend\('), sub { '' } ],
	'another comment' => [
		statements('comment on aggregate bloom_agg\('), sub { $_[0] =~ s/'filter /'a filter /r } ],
	'a volatility' => [
		statements('create function bloom_normalize\('), sub { $_[0] =~ s/ immutable / stable /r } ],
	'a default' => [
		statements('create function bloom_size\('), sub { $_[0] =~ s/default 0\.01/default 0.02/r } ],
	'a column of a view' => [
		statements('create view bloom_filters '), sub { $_[0] =~ s/, info\.note\b//r } ],
	'a revoked privilege' => [
		statements('create function bloom_chunk\('),
		sub { "$_[0]grant execute on function bloom_chunk(text, int) to pg_monitor;\n" },
		"revoke execute on function bloom_chunk(text, int) from pg_monitor;\n" ]);

# A pattern for statements that follow each other, each given by a pattern of its beginning.
sub statements
{
	my $pattern = join('\s*', map { "^$_.*?;\\n" } @_);
	return qr/$pattern/ms;
}

# Copies the programs of the server to a folder, where they take that folder for their own, and links to
# all else but the extension's scripts. The server reads the scripts of an extension from one place
# only, which may not be ours to write to. Returns the folder of the scripts and that of the programs.
sub copy_server
{
	my %config = map { $_ => (PostgreSQL::Test::Utils::run_command([ 'pg_config', "--$_" ]))[0] }
	  qw(bindir sharedir pkglibdir);
	my $top = PostgreSQL::Test::Utils::tempdir();
	my ($bin, $share, $lib) = map { "$top$config{$_}" } qw(bindir sharedir pkglibdir);
	mkpath([ $bin, "$share/extension", dirname($lib) ]);
	for my $program (qw(postgres initdb pg_ctl))
	{
		copy("$config{bindir}/$program", "$bin/$program") or die "$program: $!";
		chmod 0755, "$bin/$program" or die $!;
	}
	symlink $config{pkglibdir}, $lib or die $! unless -e $lib;
	for my $file (glob("$config{sharedir}/* $config{sharedir}/extension/*"))
	{
		next if $file =~ m{/extension$|/bloomfilter[^/]*$};
		symlink $file, $share . substr($file, length $config{sharedir}) or die "$file: $!";
	}
	return ("$share/extension", $bin);
}

# Writes a file of the extension to where the server reads it.
my ($folder, $bin) = copy_server();
sub provide
{
	my ($name, $text) = @_;
	append_to_file("$folder/bloomfilter$name", $text);
}

provide('.control', slurp_file('bloomfilter.control'));
provide("--$version.sql", $script);
my (@releases, @updates);
for my $file (map { basename($_) } glob('sql/bloomfilter--*.sql'))
{
	my ($name) = $file =~ /^bloomfilter(--.*)$/;
	provide($name, slurp_file("sql/$file"));
	if ($name =~ /^--((?:(?!--).)+)\.sql$/) { push @releases, $1 } else { push @updates, $name }
}

# The made-up versions. Each is there twice: one is updated by a script that brings what it lacks, the
# other by one that forgets it.
my @kinds = sort keys %changes;
for my $number (0 .. $#kinds)
{
	my ($part, $before, $update) = @{ $changes{ $kinds[$number] } };
	my ($new) = $script =~ /($part)/ or die "the install script has not $kinds[$number]";
	my $old = $before->($new);
	isnt($old, $new, "a version without $kinds[$number]");
	$update //= $old eq '' ? $new : $new =~ s/^create /create or replace /r;
	for my $name ("brings$number", "forgets$number")
	{
		provide("--$name.sql", $script =~ s/\Q$new\E/$old/r);
		provide("--$name--$version.sql", $name =~ /brings/ ? $update : '');
	}
}

my $node = PostgreSQL::Test::Cluster->new('main');
{
	local $ENV{PATH} = "$bin:$ENV{PATH}";
	$node->init(extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
	$node->start;
}

# What the extension is in a database: each of its objects as pg_dump writes it for pg_upgrade, with its
# comment, its privileges and its membership, but without oids. The keys of a hash.
sub catalogue
{
	my ($database) = @_;
	my ($dump) = PostgreSQL::Test::Utils::run_command(
		[ 'pg_dump', '--binary-upgrade', '--schema-only', '--host', $node->host,
			'--port', $node->port, $database ]);
	$dump =~ s/^--\n-- PostgreSQL database dump complete.*//ms;
	my @objects = split /^--\n-- Name: /m, $dump;
	shift @objects;
	for (@objects)
	{
		s/^SELECT pg_catalog\.binary_upgrade_set_[^;]*;\n//mg;
		s/^-- For binary upgrade, .*\n//mg;
		s/\n+(?:--\n)*\z/\n/;
	}
	# privileges that were granted and revoked again leave an entry without a statement
	return { map { $_ => 1 } grep { /\n[^-\n]/ } @objects };
}

# The catalogue of a new database with the extension: made anew, or where an older version is given made
# of that and updated. A filter and a value that were made before the update answer after it.
my $databases = 0;
sub catalogue_of
{
	my ($old) = @_;
	my $name = 'db' . ++$databases;
	$node->safe_psql('postgres', "create database $name");
	$node->safe_psql($name, 'create extension bloomfilter' . ($old ? qq{ version "$old"} : ''));
	return catalogue($name) if !$old;
	$node->safe_psql($name, q{
select bloom_create('f', 1000, source => 'values (''ada'')');
create table v as select bloom_agg('ada', 1000, 0.01, 'lower') as bits;
alter extension bloomfilter update;});
	is($node->safe_psql($name, q{
select bloom_might_contain('f', item), bits @> item
from v cross join (values ('ada'), ('bob')) items(item) order by item}),
		"t|t\nf|f", "$old: what was made before the update answers");
	$node->safe_psql($name, 'drop table f, v');
	return catalogue($name);
}

my $fresh = catalogue_of();
my $all = join('', keys %$fresh);
like($all, qr/^CREATE FUNCTION .*\bbloom_might_contain\(/m, 'the catalogue has the functions');
like($all, qr/^ALTER EXTENSION bloomfilter ADD FUNCTION /m, 'and their membership');

# What a catalogue lacks of the fresh one (-) and has besides (+): nothing where both are the same.
sub difference
{
	my ($catalogue) = @_;
	return join('', (map { "- $_" } grep { !$catalogue->{$_} } sort keys %$fresh),
		map { "+ $_" } grep { !$fresh->{$_} } sort keys %$catalogue);
}

for my $old (@releases)
{
	my $way = $node->safe_psql('postgres', qq{select path from pg_extension_update_paths('bloomfilter')
where source = '$old' and target = '$version'});
	isnt($way, '', "a way from $old") or next;
	is(difference(catalogue_of($old)), '', "updated from $old: the same as made anew");
}
for my $name (@updates)
{
	my ($old) = $name =~ /^--(.*?)--/;
	ok(-e "sql/bloomfilter--$old.sql", "bloomfilter$name: there is something to update");
}

for my $number (0 .. $#kinds)
{
	is(difference(catalogue_of("brings$number")), '', "a script that brings $kinds[$number]");
	isnt(difference(catalogue_of("forgets$number")), '', "a script that forgets $kinds[$number] is seen");
}

$node->stop;
done_testing();
