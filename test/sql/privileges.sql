-- Who may do what: a check needs SELECT, an add SELECT and INSERT, settings their owner.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
create role bloom_app;
create role bloom_reader;
create role bloom_nobody;
select bloom_create('f', 1000, ready => true);
select bloom_add('f', 'ada');
grant select, insert on f to bloom_app;
grant select on f to bloom_reader;

set role bloom_app;
select bloom_might_contain('f', 'ada'), bloom_add('f', 'bob'), bloom_add_many('f', '{eve}');
-- It can add, and never clear: the article's update and a delete are not its to give.
update f set bits = bits | bits;
delete from f;
select bloom_suspend('f');
select bloom_resume('f');
select status from bloom_info('f');

set role bloom_reader;
select bloom_might_contain('f', 'bob'), bloom_might_contain('f', 'zed');
select bloom_add('f', 'zed');
select bloom_add_many('f', '{zed}');
select filter from bloom_filters;

set role bloom_nobody;
select bloom_might_contain('f', 'ada');
select bloom_might_contain_many('f', '{ada}');
select bloom_add('f', 'ada');
select bloom_info('f');
select bloom_info_sampled('f', 1000);
select bloom_register('f', 'lower');
select count(*) from bloom_filters;
select bloom_create('mine', 1000);
reset role;

-- Revoked means revoked at once, in a session that has used it.
set role bloom_reader;
select bloom_might_contain('f', 'ada');
reset role;
revoke select on f from bloom_reader;
set role bloom_reader;
select bloom_might_contain('f', 'ada');
reset role;

-- In a schema of its own a plain role makes, owns and runs a filter.
create schema own authorization bloom_app;
create table names (name text);
insert into names values ('ada');
alter table names enable row level security;
grant select on names to bloom_app;
set role bloom_app;
select bloom_create('own.f', 1000, source => 'values (''ada'')');
select bloom_suspend('own.f'), bloom_resume('own.f');
-- Rows that row-level security hides would be missing names.
select bloom_create('own.g', 1000, source => 'select name from names');
reset role;
drop schema own cascade;
drop table names, f;
drop role bloom_app, bloom_reader, bloom_nobody;

-- Privileges that come some other way than by a grant to the role, and go while a session has used
-- them.
create role bloom_reader;
create role bloom_group;
select bloom_create('f', 1000, ready => true);
create function denied() returns text language plpgsql as $$
begin
    set local role bloom_reader;
    return bloom_might_contain('f', 'ada')::text;
exception when insufficient_privilege then return sqlerrm;
end $$;
create function tries(gives text, takes text) returns table (given text, taken text)
language plpgsql as $$
begin
    execute gives;
    given := denied();
    reset role;
    execute takes;
    taken := denied();
    reset role;
    return next;
end $$;
grant select on f to bloom_group, pg_database_owner;
select gives, given, taken
from (values ('grant bloom_group to bloom_reader', 'revoke bloom_group from bloom_reader'),
             ('grant pg_read_all_data to bloom_reader', 'revoke pg_read_all_data from bloom_reader'),
             ('alter role bloom_reader superuser', 'alter role bloom_reader nosuperuser'),
             ('grant bloom_group to bloom_reader', 'revoke select on f from bloom_group'),
             ('grant select on f to public', 'revoke select on f from public'),
             ('alter table f owner to bloom_reader', 'alter table f owner to current_user'),
             (format('alter database %I owner to bloom_reader', current_database()),
              format('alter database %I owner to current_user', current_database()))) v (gives, takes),
     lateral tries(gives, takes);
drop function denied, tries;
drop table f;
drop role bloom_reader, bloom_group;
