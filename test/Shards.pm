# Users on shards behind one filter server, with PostgreSQL's own parts only: `users` is partitioned
# by a hash of the id, and each partition is a foreign table (postgres_fdw) of a shard's database.
package Shards;
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Starts the servers and makes the tables, without rows and without a filter. Options: servers (of
# shards, 2), shards (databases, 4, the first ones on the first server), filter (a hash of options
# for the init of the filter server), filter_conf (lines for its postgresql.conf).
sub new
{
	my ($class, %options) = @_;
	my $self = bless {
		count => $options{shards} // 4,
		servers => [],
		filter => PostgreSQL::Test::Cluster->new('filter')
	}, $class;
	start_server($self->{filter}, $options{filter} // {}, $options{filter_conf} // '');
	for my $i (0 .. ($options{servers} // 2) - 1)
	{
		push @{ $self->{servers} }, PostgreSQL::Test::Cluster->new("shards_$i");
		start_server($self->{servers}[$i], {}, '');
	}
	$self->{filter}->safe_psql('postgres', q{
create extension bloomfilter;
create extension postgres_fdw;
create table users (id bigint not null, username text not null) partition by hash (id);
create table usernames (key text not null, user_id bigint not null) partition by hash (key);
});
	$self->add_shard($_) for 0 .. $self->{count} - 1;
	return $self;
}

# Makes a server and starts it. $conf is added to its postgresql.conf.
sub start_server
{
	my ($node, $options, $conf) = @_;
	$node->init(extra => [ '--encoding=UTF8', '--locale=C' ], %$options);
	# Each client of the filter server has a session in each of its databases.
	$node->append_conf('postgresql.conf', "log_statement = none\nmax_connections = 100\n"
		  . "log_line_prefix = '%m [%p] %q%d %a '\n$conf");
	$node->start;
	return;
}

# Makes the database of a shard, and its partitions on the filter server.
sub add_shard
{
	my ($self, $i) = @_;
	my $server = $self->server_of($i);
	my ($host, $port, $count) = ($server->host, $server->port, $self->{count});
	$server->safe_psql('postgres', "create database shard_$i");
	$self->on_shard($i, q{
create extension bloomfilter;
create table users (id bigint primary key, username text not null);
create index on users (lower(username));
create table usernames (key text primary key, user_id bigint not null);
});
	$self->{filter}->safe_psql('postgres', qq{
create server shard_$i foreign data wrapper postgres_fdw options (
	host '$host', port '$port', dbname 'shard_$i', connect_timeout '2', fetch_size '1000',
	batch_size '1000', async_capable 'true', extensions 'bloomfilter');
create user mapping for current_user server shard_$i;
create foreign table users_$i partition of users
	for values with (modulus $count, remainder $i) server shard_$i options (table_name 'users');
create foreign table usernames_$i partition of usernames
	for values with (modulus $count, remainder $i) server shard_$i options (table_name 'usernames');
});
	return;
}

# Makes users User1, User2 and so on, a filter of them, and the exact answer. Ghost has bits and no
# user: a check answers maybe, and the shards know better.
sub load
{
	my ($self, $names) = @_;
	$self->value(qq{
insert into users select i, 'User' || i from generate_series(1, $names) i;
insert into usernames select lower(username), id from users;
select bloom_create('username_filter', 1e5, source => 'select username from users');
select bloom_add('username_filter', 'Ghost');
create function is_taken(name text) returns boolean language plpgsql stable strict as \$\$
declare
	key text := lower(name);
begin
	if bloom_might_contain('username_filter', name) = false then
		return false;
	end if;
	return exists (select 1 from users where lower(username) = key);
end \$\$;
});
	return;
}

# Makes a filter of each shard's users, and the exact answer from these filters.
sub load_filter_a_shard
{
	my ($self) = @_;
	$self->value(q{
select bloom_create(format('users_%s_filter', shard), 1e5, 0.0001,
	source => format('select username from users_%s', shard))
from generate_series(0, 3) shard;
-- With a filter a shard, only the shards whose filter answers maybe are asked.
create function is_taken_by_shard(name text) returns boolean language plpgsql stable strict as $$
declare
	key text := lower(name);
	found_it boolean;
begin
	for shard in 0 .. 3 loop
		if bloom_might_contain(format('users_%s_filter', shard)::regclass, name) then
			execute format('select exists (select 1 from users_%s where lower(username) = $1)', shard)
				into found_it using key;
			if found_it then
				return true;
			end if;
		end if;
	end loop;
	return false;
end $$;
});
	return;
}

# The server that has a shard's database.
sub server_of
{
	my ($self, $i) = @_;
	return $self->{servers}[ int($i * @{ $self->{servers} } / $self->{count}) ];
}

# What a statement returns on the filter server.
sub value
{
	my ($self, $sql) = @_;
	return $self->{filter}->safe_psql('postgres', $sql);
}

# What a statement returns on one shard.
sub on_shard
{
	my ($self, $i, $sql) = @_;
	return $self->server_of($i)->safe_psql("shard_$i", $sql);
}

# The same for each shard: a list.
sub on_shards
{
	my ($self, $sql) = @_;
	return map { $self->on_shard($_, $sql) } 0 .. $self->{count} - 1;
}

# How many users of the shards a filter denies: the audit.
sub denied
{
	my ($self, $filter, $table) = @_;
	$filter //= 'username_filter';
	$table //= 'users';
	return $self->value(
		"select count(*) from $table where bloom_might_contain('$filter', username) = false");
}

# How many names are there more than once.
sub doubles
{
	my ($self) = @_;
	return $self->value(q{
select count(*) from (select from users group by lower(username) having count(*) > 1) names});
}

my $scripts = 0;

# Runs a script with pgbench on the filter server, without waiting for its end. In it, :n starts at
# 0 in each client and keeps its value from one transaction to the next.
sub start_clients
{
	my ($self, $clients, $transactions, $script, @options) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/script' . $scripts++;
	append_to_file($file, $script);
	my $run = { out => '', err => '' };
	$run->{handle} = IPC::Run::start(
		[ 'pgbench', '-n', '-c', $clients, '-j', 2, '-t', $transactions, '-D', 'n=0', @options,
			'-f', $file, $self->{filter}->connstr('postgres') ],
		'>', \$run->{out}, '2>', \$run->{err});
	return $run;
}

# The error of a statement on the filter server, with its SQLSTATE. It is a failure if there is none.
sub error_of
{
	my ($self, $sql) = @_;
	my ($status, $output, $error) = $self->{filter}->psql('postgres', $sql,
		extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	isnt($status, 0, "refused: $sql");
	return $error;
}

sub stop
{
	my ($self) = @_;
	$_->stop for $self->{filter}, @{ $self->{servers} };
	return;
}

1;
