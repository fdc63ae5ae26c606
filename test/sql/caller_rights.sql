-- Sources and triggers run with the rights of whoever calls or writes, and with no others.
\set VERBOSITY terse
set client_min_messages = warning;
create role bloom_caller;
create role bloom_definer;
create role bloom_signup;
create schema s;
grant create, usage on schema s to bloom_caller, bloom_definer;
grant usage on schema s to bloom_signup;
create table secret (name text);
insert into secret values ('hidden');
grant select on secret to bloom_definer;
create function whoami() returns text language sql as 'select ''as '' || current_user';
set role bloom_definer;
create function s.definer() returns text language sql security definer as 'select whoami()';
create function s.read_secret() returns setof text language sql security definer as 'select name from public.secret';
create view s.secret_view as select name from public.secret;
grant select on s.secret_view to bloom_caller;
create function s.make(filter text, source text) returns regclass language plpgsql security definer as
    'begin return bloom_create(filter, 1000, source => source); end';
create procedure s.rebuild(filter regclass, source text) language plpgsql security definer as
    $$ begin call bloom_rebuild(filter, source, grace => '0'); end $$;
reset role;

-- A table that the caller may not read.
set role bloom_caller;
select bloom_create('s.f', 1000, source => 'select name from secret');
select bloom_create('s.f', 1000, source => 'values (''ada'')');
call bloom_rebuild('s.f', 'select name from secret', grace => '0');
-- Through what is there for him he reads it.
call bloom_rebuild('s.f', 'select name from s.secret_view union all select s.read_secret()', grace => '0');
select bloom_might_contain_many('s.f', '{hidden,ada}');
-- Who a function in a source is called by: the caller, the owner of a function that says so.
call bloom_rebuild('s.f', 'select whoami() union all select s.definer()', grace => '0');
select bloom_might_contain_many('s.f', '{as bloom_caller,as bloom_definer}');
reset role;
call bloom_rebuild('s.f', 'select whoami()', grace => '0', min_share => 0);
select bloom_might_contain('s.f', 'as ' || current_user), bloom_might_contain('s.f', 'as bloom_caller');
-- A function with the rights of its owner makes a filter with these, and of his. A rebuild commits,
-- which such a procedure may not.
set role bloom_caller;
select s.make('s.g', 'select name from secret union all select whoami()');
select bloom_might_contain('s.g', 'hidden');
call s.rebuild('s.g', 'select whoami()');
reset role;
select bloom_might_contain_many('s.g', '{hidden,as bloom_definer,as bloom_caller}');
select pg_get_userbyid(relowner) from pg_class where oid = 's.g'::regclass;

-- A source that changes the role. What comes after it runs as that role, as after any query that does
-- so, and the filter stays whose it was.
create function become(role text, local boolean) returns text language sql as 'select set_config(''role'', $1, $2)';
call bloom_rebuild('s.f', 'select become(''bloom_signup'', true)', grace => '0', min_share => 0);
select current_user = session_user as back, bloom_might_contain('s.f', 'bloom_signup') as rebuilt;
call bloom_rebuild('s.f', 'select become(''bloom_signup'', false)', grace => '0', min_share => 0);
select current_user = session_user as back, bloom_might_contain('s.f', 'bloom_signup') as rebuilt;
reset role;
select bloom_create('s.h', 1000, source => 'select become(''bloom_signup'', false)');
select current_user = session_user as back, to_regclass('s.h');
reset role;
set role bloom_caller;
call bloom_rebuild('s.f', 'select become(''none'', false)', grace => '0', min_share => 0);
reset role;
select pg_get_userbyid(relowner), bloom_might_contain('s.f', 'none') from pg_class where oid = 's.f'::regclass;
-- A function with its owner's rights cannot be left in this way.
set role bloom_caller;
select s.make('s.h', 'select become(''none'', false)');
reset role;
-- Nor does a source begin or end a transaction, or call what does.
create function calls_rebuild() returns text language plpgsql as
    $$ begin call bloom_rebuild('s.g', 'values (''x'')', grace => '0'); return 'x'; end $$;
call bloom_rebuild('s.f', 'select calls_rebuild()', grace => '0', min_share => 0);
select bloom_might_contain_many('s.g', '{hidden,x}');

-- bloom_add_trigger runs as whoever writes the row.
create table s.users (name text);
create trigger add_name after insert or update on s.users for each row
execute function bloom_add_trigger('s.g', 'name');
grant insert, update, select on s.users to bloom_signup;
create view s.users_view as select name from s.users;
grant insert on s.users_view to bloom_signup;
create function s.sign_up(name text) returns void language sql security definer as
    'insert into s.users values (name)';
set role bloom_signup;
insert into s.users values ('direct');
insert into s.users_view values ('through a view');
-- A function with its owner's rights has enough.
select s.sign_up('by a function');
reset role;
table s.users;
select bloom_might_contain_many('s.g', '{direct,through a view,by a function}');
grant insert on s.g to bloom_signup;
set role bloom_signup;
insert into s.users values ('with insert alone');
reset role;
grant select on s.g to bloom_signup;
set role bloom_signup;
insert into s.users values ('direct');
update s.users set name = 'renamed' where name = 'direct';
reset role;
select bloom_might_contain_many('s.g', '{direct,renamed}');
-- As a replica only a trigger that always fires does.
set session_replication_role = replica;
insert into s.users values ('replicated');
select bloom_might_contain('s.g', 'replicated');
alter table s.users enable always trigger add_name;
insert into s.users values ('replicated');
select bloom_might_contain('s.g', 'replicated');
reset session_replication_role;
revoke all on s.g from bloom_signup;

-- The functions of the manual: whoever may call them has no privilege on the filter. A temporary table
-- of the caller is not taken for it.
create function check_username(name text) returns boolean language sql stable security definer
set search_path = pg_catalog, pg_temp as $$ select public.bloom_might_contain('s.g', name) $$;
create function add_username(name text) returns boolean language sql security definer
set search_path = pg_catalog, pg_temp as $$ select public.bloom_add('s.g', name) $$;
revoke execute on function check_username, add_username from public;
select check_username('hidden');
set role bloom_signup;
select check_username('hidden');
reset role;
grant execute on function check_username, add_username to bloom_signup;
set role bloom_signup;
create temporary table g (chunk int primary key, bits bit(8192) not null);
select check_username('Ann'), add_username('Ann'), check_username('ann');
insert into s.g values (1000, 0::bit(8192));
select bloom_might_contain('s.g', 'ann');
drop table g;
reset role;

drop function check_username, add_username, become, calls_rebuild;
drop schema s cascade;
drop function whoami;
drop table secret;
drop role bloom_caller, bloom_definer, bloom_signup;
