-- bloom_create: the table it makes, the two ways to be ready, bad input.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
select bloom_create('plain', 10000, ready => true);
select attname, format_type(atttypid, atttypmod), attnotnull from pg_attribute
where attrelid = 'plain'::regclass and attnum > 0;
select pg_get_indexdef(indexrelid), indisprimary from pg_index where indrelid = 'plain'::regclass;
select tgenabled, array(select case when arg ~ '^(canary|stamp|built_at|system|timeline|database|relation)'
                                    then regexp_replace(arg, '=.+', '=...') else arg end
                        from unnest(string_to_array(encode(tgargs, 'escape'), E'\\000')) arg)
           as settings
from pg_trigger where tgrelid = 'plain'::regclass order by tgname;
select relkind, reloptions, count(*) as rows, min(chunk), max(chunk)
from pg_class, plain where oid = 'plain'::regclass group by 1, 2;
select obj_description('plain'::regclass);
select bloom_might_contain('plain', 'ada'), bloom_add('plain', 'ada'),
       bloom_might_contain('plain', 'ADA');

-- The settings follow a rename, and go with the table.
alter table plain rename to renamed;
select bloom_might_contain('renamed', 'ada'), bloom_might_contain('renamed', 'bob');
drop table renamed;

-- Without names and without a word that there are none: not ready. Every check answers maybe,
-- adds work, and no add is called definitely new.
set client_min_messages = notice;
select bloom_create('unready', 1000, normalization => 'none');
select bloom_might_contain('unready', 'ada');
set client_min_messages = warning;
select bloom_might_contain('unready', 'bob'), bloom_add('unready', 'ada'),
       bloom_add_many('unready', '{bob,eve}');
select bloom_resume('unready');
select name, bloom_might_contain('unready', name) from unnest('{ada,bob,eve,dan}'::text[]) name;
drop table unready;

-- Loaded in the same call.
create table users (username text);
insert into users select 'User' || i from generate_series(1, 5000) i;
insert into users values (null);
select bloom_create('loaded', 10000, source => 'select username from users');
select count(*) filter (where bloom_might_contain('loaded', username)) as there, count(username)
from users;
select count(*) < 200 as few_false
from generate_series(1, 10000) i where bloom_might_contain('loaded', 'absent' || i);
-- The very rows that adding each name gives.
select bloom_create('added', 10000, ready => true);
select bloom_add_many('added', array(select username from users)) > 4900 as added;
select count(*), count(*) filter (where l.bits = a.bits) as equal
from loaded l join added a using (chunk);
-- In several passes, where memory is short; every row is written once.
set maintenance_work_mem = '1MB';
select bloom_create('passes', 10000, chunks => 2500, source => 'select username from users');
reset maintenance_work_mem;
select bloom_create('one_pass', 10000, chunks => 2500, source => 'select username from users');
select count(*), count(*) filter (where p.bits = o.bits) as equal, sum(bit_count(p.bits)) > 34000 as full
from passes p join one_pass o using (chunk);
drop table added, passes, one_pass;

-- The source may be of any type that is text without being told; it may end in a semicolon or a
-- comment.
select bloom_create('f1', 1000, source => 'select ''ada''::varchar;');
select bloom_create('f2', 1000, source => 'select ''ada''::name union all select null -- all');
select bloom_create('f3', 1000, source => 'table users');
select bloom_create('f4', 1000, source => 'select ''ada  ''::char(5)');
select bloom_create('f5', 1000, source => 'values (''ada''), (''bob'')');
select bloom_might_contain('f1', 'ada'), bloom_might_contain('f2', 'ada'),
       bloom_might_contain('f3', 'user77'), bloom_might_contain('f4', 'ada'),
       bloom_might_contain('f5', 'bob');
drop table f1, f2, f3, f4, f5;
-- An empty source is ready, and said to be empty; more than the capacity is told.
set client_min_messages = notice;
select bloom_create('f6', 1000, normalization => 'none', source => 'select username from users where false');
select bloom_might_contain('f6', 'ada');
select bloom_create('f7', 100, chunks => 128, normalization => 'none', source => 'select username from users') \g /dev/null
set client_min_messages = warning;
drop table f6, f7;

-- Sources that are refused leave nothing behind.
select bloom_create('bad', 1000, source => 'users');
select bloom_create('bad', 1000, source => 'select username, 1 from users');
select bloom_create('bad', 1000, source => 'select 1');
select bloom_create('bad', 1000, source => 'select from users');
select bloom_create('bad', 1000, source => 'select username from nowhere');
select bloom_create('bad', 1000, source => 'select username frm users');
select bloom_create('bad', 1000, source => 'insert into users values (''eve'')');
select bloom_create('bad', 1000, source => 'create table side (a int)');
select bloom_create('bad', 1000, source => 'select username from users; select username from users');
select bloom_create('bad', 1000, source => 'select case i when 500 then 1 / 0 end::text
                                            from generate_series(1, 1000) i');
select bloom_create('bad', 1000, source => '');
select to_regclass('bad') is null as gone, to_regclass('side') is null as no_side,
       count(*) as users from users;

-- Bad arguments.
select bloom_create('loaded', 1000);
select bloom_create(null, 1000);
select bloom_create('bad', null);
select bloom_create('bad', 0);
select bloom_create('bad', -1);
select bloom_create('bad', 1.5);
select bloom_create('bad', 'NaN');
select bloom_create('bad', 1e18);
select bloom_create('bad', 0.01, 1e8);
select bloom_create('bad', 1000, 5);
select bloom_create('bad', 1000, 0);
select bloom_create('bad', 1000, 1e-300);
select bloom_create('bad', 1000, 'NaN');
select bloom_create('bad', 1000, normalization => 'upper');
select bloom_create('bad', 1000, normalization => null);
select bloom_create('bad', 1000, chunks => 0);
select bloom_create('bad', 1000, chunks => -1);
select bloom_create('bad', 1000, chunks => 127);
select bloom_create('bad', 1e11);
select bloom_create('nowhere.bad', 1000);
select bloom_create('pg_temp.bad', 1000);
select bloom_create('', 1000);
select bloom_create('a.b.c.d', 1000);
begin read only;
select bloom_create('bad', 1000);
rollback;
select to_regclass('bad') is null as gone;

-- Names that need quotes; a schema of that name.
create schema "a b";
select bloom_create('"a b"."F, ''x''"', 1000, ready => true);
select bloom_add('"a b"."F, ''x''"', 'ada'), bloom_might_contain('"a b"."F, ''x''"', 'bob');
select bloom_suspend('"a b"."F, ''x''"'), bloom_resume('"a b"."F, ''x''"');
select bloom_might_contain('"a b"."F, ''x''"', 'ada'), bloom_might_contain('"a b"."F, ''x''"', 'bob');
drop schema "a b" cascade;

-- A failed transaction leaves nothing.
begin;
select bloom_create('rolled_back', 1000, ready => true);
select bloom_add('rolled_back', 'ada'), bloom_might_contain('rolled_back', 'bob');
rollback;
select to_regclass('rolled_back') is null as gone;

-- normalization none: the item as it is.
select bloom_create('as_is', 1000, normalization => 'none', ready => true);
select bloom_add('as_is', 'Ada'), bloom_might_contain('as_is', 'Ada'),
       bloom_might_contain('as_is', 'ada');
select bloom_normalize('ÅDA', 'none'), bloom_normalize('ADA', 'lower'), bloom_normalize(null, 'lower');
select bloom_normalize('ada', 'upper');
drop table as_is, loaded, users;
