# No function of the library has the name of one in the server. The server's compiler of queries looks for a
# function to inline by its name alone: it took the server's bloom_create for ours, and crashed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'nm is not installed' if system('nm --version >/dev/null 2>&1') != 0;

# The names of the functions and variables that a program or library exports.
sub exported
{
	my ($file) = @_;
	my $names = `nm -D --defined-only '$file'`;
	is($?, 0, "the names in $file");
	return map { (split)[2] => 1 } split /\n/, $names;
}

chomp(my $bindir = `pg_config --bindir`);
chomp(my $library = `pg_config --pkglibdir`);
my %server = exported("$bindir/postgres");
my %ours = exported("$library/bloomfilter.so");
ok($server{bloom_add_element}, 'the server exports its own filter');
ok($ours{bloom_might_contain}, 'the library exports ours');
is_deeply([ sort grep { $server{$_} } keys %ours ], [], 'no name is in both');

# Each function that SQL may call by itself, compiled and inlined. Nulls are refused, or give null.
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--no-sync' ]);
$node->start;
$node->safe_psql('postgres', 'create extension bloomfilter');
SKIP:
{
	skip 'this server cannot compile queries', 1
	  if $node->safe_psql('postgres', 'select pg_jit_available()') ne 't';
	$node->safe_psql('postgres', q{
		set jit = on;
		set jit_above_cost = 0;
		set jit_inline_above_cost = 0;
		set jit_optimize_above_cost = 0;
		do $$
		declare
		    call text;
		begin
		    for call in
		        select format('select %s(%s)', oid::regproc,
		                      (select string_agg('null::' || format_type(type, null), ', ')
		                       from unnest(proargtypes) type))
		        from pg_proc
		        where proname like any ('{bloom%,username\_bits}') and prokind = 'f'
		              and prorettype <> 'trigger'::regtype
		              and not 'internal' = any (select format_type(type, null) from unnest(proargtypes) type)
		              and not 'cstring' = any (select format_type(type, null) from unnest(proargtypes) type)
		    loop
		        begin
		            execute call;
		        exception when others then
		            -- no connection is left after a crash
		            null;
		        end;
		    end loop;
		end $$;
	});
	pass('every function can be inlined');
}
$node->stop;
done_testing();
