-- Who may install the extension, and what he can do with it: it is trusted, so whoever may create in
-- the database. Its objects belong to the superuser all the same.
\set VERBOSITY terse
select current_database() as here \gset
create role bloom_dbo;
create role bloom_maker;
create role bloom_other;
create database bloom_installs owner bloom_dbo;
grant create on database bloom_installs to bloom_maker;
\c bloom_installs
set client_min_messages = warning;
-- Every version that the server has.
select distinct trusted, relocatable, superuser from pg_available_extension_versions where name = 'bloomfilter';
set role bloom_other;
create extension bloomfilter;
reset role;

set role bloom_dbo;
create schema ext;
create schema filters;
create extension bloomfilter schema ext;
reset role;
select pg_get_userbyid(extowner) as owner, extnamespace::regnamespace as schema from pg_extension where extname = 'bloomfilter';
create view members as
select classid, objid,
       coalesce((select proowner from pg_proc where oid = objid and classid = 'pg_proc'::regclass),
                (select typowner from pg_type where oid = objid and classid = 'pg_type'::regclass),
                (select oprowner from pg_operator where oid = objid and classid = 'pg_operator'::regclass),
                (select opcowner from pg_opclass where oid = objid and classid = 'pg_opclass'::regclass),
                (select opfowner from pg_opfamily where oid = objid and classid = 'pg_opfamily'::regclass),
                (select relowner from pg_class where oid = objid and classid = 'pg_class'::regclass)) as owner
from pg_depend
where refclassid = 'pg_extension'::regclass and deptype = 'e'
  and refobjid = (select oid from pg_extension where extname = 'bloomfilter');
select count(*) > 50 as members, count(*) filter (where owner <> 10) as of_others,
       array_agg(distinct classid::regclass::text) filter (where owner is null) as without_owner
from members;

-- He uses it, and so does whom he lets.
set role bloom_dbo;
set search_path = filters, ext;
select bloom_create('f', 1000, source => 'values (''ada'')');
select bloom_add('f', 'bob');
call bloom_rebuild('f', 'values (''ada''), (''eve'')', grace => '0', min_share => 0);
call bloom_grow('f');
select filter, status, chunks, bloom_might_contain_many(filter, '{ada,bob,eve}') from bloom_filters;
create table vals as select bloom_agg(n, 1000, 0.01, 'lower') v from unnest('{ada,bob}'::text[]) n;
select v @> 'ada' as ada, v @> 'eve' as eve from vals;
grant usage on schema ext, filters to bloom_other;
grant select, insert on f to bloom_other;
set role bloom_other;
select bloom_add('f', 'gus'), bloom_might_contain('f', 'gus'), bloom_might_contain('f', 'bob');
select count(*) from bloom_filters;

-- It is no way to more rights: he owns the extension, and none of its objects.
set role bloom_dbo;
alter function bloom_add(regclass, text) owner to bloom_dbo;
alter function bloom_add(regclass, text) security definer;
create or replace function ext.bloom_add(filter regclass, item text) returns boolean language sql as 'select true';
create or replace view ext.bloom_filters as select 1;
grant execute on function bloom_guard() to bloom_other;
drop function bloom_guard();
alter type bloomfilter owner to bloom_dbo;
create function mine() returns int language sql as 'select 1';
alter extension bloomfilter add function mine();
alter extension bloomfilter drop function bloom_guard();
alter extension bloomfilter drop function mine();
-- Nor can a function of type internal be called with something else.
create aggregate steals(text, float8, float8, text) (sfunc = bloom_agg_add, stype = internal);
select bloom_building_value(null::bytea), bloom_building_deserialize('', null);
select bloom_guard();

-- Whose is the extension, who may move it and drop it? Moving takes the owner of its objects.
grant create on schema filters to bloom_other;
set role bloom_other;
alter extension bloomfilter set schema filters;
alter extension bloomfilter update;
drop extension bloomfilter;
set role bloom_dbo;
revoke create on schema filters from bloom_other;
alter extension bloomfilter set schema filters;
reset role;
alter extension bloomfilter set schema filters;
set role bloom_dbo;
set search_path = filters;
select filter, status from bloom_filters;
select bloom_suspend('f'), bloom_resume('f');
select bloom_add('f', 'ida'), bloom_might_contain('f', 'ada'), bloom_might_contain('f', 'zed');
alter extension bloomfilter update;
-- A schema can be renamed by its owner, the extension in it too.
alter schema filters rename to "New Filters";
set search_path = "New Filters";
select bloom_suspend('f'), bloom_resume('f');
call bloom_grow('f');
select filter, status from bloom_filters;

-- Filters are in the way of dropping it.
drop extension bloomfilter;
\set VERBOSITY default
drop extension bloomfilter;
\set VERBOSITY terse
select bloom_might_contain('f', 'ada');
-- By force, tables stay, with their bits.
drop extension bloomfilter cascade;
select count(*) from f;
create extension bloomfilter;
select bloom_might_contain('f', 'ada');
select bloom_register('f', 'lower', 1000, known => '{ada,eve,ida}');
select bloom_might_contain('f', 'ada'), bloom_might_contain('f', 'zed');
drop table f;
drop extension bloomfilter;

-- CREATE on the database is enough.
set role bloom_maker;
create schema made;
create extension bloomfilter schema made;
select pg_get_userbyid(extowner) as owner from pg_extension where extname = 'bloomfilter';
-- The owner of the database is not the owner of the extension.
set role bloom_dbo;
drop extension bloomfilter;
set role bloom_maker;
drop extension bloomfilter;
reset role;

\c :here
drop database bloom_installs;
drop role bloom_dbo, bloom_maker, bloom_other;
