-- What psql's \d commands and a catalogue query show a DBA.
-- Every object has a comment.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
select pg_describe_object(classid, objid, 0) as uncommented  -- a view's row type needs none
from pg_depend
where refclassid = 'pg_extension'::regclass and deptype = 'e' and classid <> 'pg_type'::regclass
  and refobjid = (select oid from pg_extension where extname = 'bloomfilter')
  and obj_description(objid, classid::regclass::name) is null;
-- Volatility, strictness, parallel safety, language.
select p.oid::regprocedure as function, prokind as k, provolatile as v, proisstrict as strict,
       proparallel as p, lanname
from pg_proc p join pg_language l on l.oid = prolang
     join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid and deptype = 'e'
where refobjid = (select oid from pg_extension where extname = 'bloomfilter')
order by p.oid::regprocedure::text collate "C";
-- No function is overloaded on the type of its item, nor on regclass.
select proname, count(*)
from pg_proc p join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid and deptype = 'e'
where refobjid = (select oid from pg_extension where extname = 'bloomfilter')
group by proname having count(*) > 1;
-- An untyped parameter finds its function.
prepare untyped as select bloom_chunk($1, $2), bloom_bits_add($3, $4);
select parameter_types from pg_prepared_statements where name = 'untyped';
deallocate untyped;

-- The extension moves to another schema, and its filters with it.
select bloom_create('f', 1000, ready => true);
select bloom_add('f', 'ada');
create schema elsewhere;
alter extension bloomfilter set schema elsewhere;
select elsewhere.bloom_might_contain('f', 'ada'), elsewhere.bloom_might_contain('f', 'bob');
select elsewhere.bloom_suspend('f'), elsewhere.bloom_resume('f');
select filter, status from elsewhere.bloom_filters;
alter extension bloomfilter set schema public;
drop schema elsewhere;
select bloom_might_contain('f', 'ada'), bloom_might_contain('f', 'bob');

-- The extension is not dropped from under a filter unasked.
drop extension bloomfilter;

-- Objects of a hostile search path are not taken for the server's.
create schema hostile;
create function hostile.lower(text) returns text language sql immutable return 'stolen';
create function hostile.md5(text) returns text language sql immutable return 'stolen';
create domain hostile.int4 as text;
create domain hostile.bit as text;
create function hostile.int4eq(int, int) returns boolean language sql immutable return false;
create operator hostile.= (leftarg = int, rightarg = int, function = hostile.int4eq);
set search_path = hostile, public, pg_catalog;
select bloom_create('public.g', 1000, source => 'values (''ADA''), (''bob'')');
select bloom_might_contain_many('g', '{ada,BOB,eve}'), bloom_add('g', 'eve');
select bloom_suspend('g'), bloom_resume('g');
select filter, status, abs(items - 3) < 0.5 as items from bloom_filters where filter::text = 'g';
reset search_path;
drop schema hostile cascade;
-- And none is needed.
set search_path = '';
select public.bloom_might_contain('public.g', 'ada'), public.bloom_might_contain('public.g', 'dan'),
       public.bloom_add('public.g', 'dan'), public.bloom_chunk('ada', 131072),
       (0::bit(8192) operator(public.+) 'ada') operator(public.@>) 'ada';
select filter, status from public.bloom_filters order by filter::text;
reset search_path;
drop table f, g;
