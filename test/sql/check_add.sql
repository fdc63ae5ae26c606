-- Check and add, one by one and many.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
select bloom_create('f', 10000, ready => true);
select bloom_add('f', 'ada'), bloom_add('f', 'ada'), bloom_add('f', 'ADA');
select bloom_might_contain('f', 'Ada'), bloom_might_contain('f', 'bob');
-- Seen by the command that adds, and by the next.
select name, bloom_add('f', name), bloom_might_contain('f', name)
from unnest('{x1,x2,x3}'::text[]) name;

-- Many: order, length, bounds, nulls, empty.
select bloom_might_contain_many('f', '{ada,bob,null,x1,Ada}');
select bloom_might_contain_many('f', '[5:6]={ada,bob}');
select bloom_might_contain_many('f', '{}'), bloom_might_contain_many('f', '{null}'),
       bloom_might_contain_many('f', null);
select bloom_add_many('f', '{m1,m2,null,M1,ada,m3}'), bloom_add_many('f', '{m1,m2,m3}'),
       bloom_add_many('f', '{}'), bloom_add_many('f', '{null}'), bloom_add_many('f', null);
select bloom_might_contain_many('f', '{m1,m2,m3,m4}');
select bloom_might_contain_many('f', '{{ada},{bob}}');
select bloom_add_many('f', '{{ada},{bob}}');

-- A null item gives null, a null filter an error, both an error.
select bloom_might_contain('f', null), bloom_add('f', null);
select bloom_might_contain(null, 'ada');
select bloom_add(null, 'ada');
select bloom_might_contain_many(null, '{ada}');
select bloom_add_many(null, '{ada}');
select bloom_might_contain(null, null);
select bloom_info(null);

-- Items of any length and content.
select bloom_add('f', ''), bloom_might_contain('f', ''), bloom_add('f', repeat('Ab', 500000)),
       bloom_might_contain('f', repeat('aB', 500000)), bloom_might_contain('f', repeat('ab', 499999)),
       bloom_add('f', '🐘'), bloom_might_contain('f', '🐘'), bloom_add('f', E'a\nb'),
       bloom_add('f', 'ÅSA'), bloom_might_contain('f', lower('ÅSA'));

-- Each row of _many is written at most once, and not at all where it has the bits.
begin;
select bloom_add_many('f', array(select 'once' || i from generate_series(1, 3000) i)) > 2950 as new;
select count(*) as not_once from (select chunk, count(*) from f group by chunk) r where count <> 1;
select count(distinct xmin::text) <= 2 as written_once from f;
commit;
create temp table before as select chunk, xmin::text as xmin_was, ctid as ctid_was from f;
select bloom_add_many('f', array(select 'once' || i from generate_series(1, 3000) i)) as again;
select count(*) as rewritten from f join before using (chunk)
where f.ctid <> ctid_was or f.xmin::text <> xmin_was;

-- Rolled back: with its transaction, with its savepoint; added again it is there.
begin;
select bloom_add('f', 'gone'), bloom_might_contain('f', 'gone');
rollback;
select bloom_might_contain('f', 'gone');
begin;
savepoint a;
select bloom_add('f', 'gone');
rollback to a;
select bloom_might_contain('f', 'gone'), bloom_add('f', 'gone'), bloom_might_contain('f', 'gone');
commit;
select bloom_might_contain('f', 'gone');
-- An error half way through _many leaves nothing.
begin;
savepoint a;
select bloom_add_many('f', array['half1', 'half2']) / 0;
rollback to a;
commit;
select bloom_might_contain_many('f', '{half1,half2}');

-- All in one chunk, again and again in one transaction.
begin;
select count(*), count(*) filter (where bloom_add('f', name)) as new
from (select 'c' || i as name from generate_series(1, 20000) i
      where bloom_chunk('c' || i, 128) = 5) n;
commit;
select count(*) as denied
from (select 'c' || i as name from generate_series(1, 20000) i
      where bloom_chunk('c' || i, 128) = 5) n
where not bloom_might_contain('f', name);

-- In a filter that is full every check is maybe and no add is new.
update f set bits = ~0::bit(8192);
select bloom_might_contain('f', 'nobody'), bloom_add('f', 'nobody'), bloom_add_many('f', '{a,b}');

-- Within a statement that changes the same row, too.
select bloom_create('g', 1000, ready => true);
update g set bits = bits + 'ada' where chunk = bloom_chunk('ada', 128) and bloom_add('g', 'ada');
select bloom_might_contain('g', 'ada');

-- A read-only transaction checks and does not add.
begin read only;
select bloom_might_contain('g', 'bob');
select bloom_add('g', 'bob');
rollback;
begin read only;
select bloom_add_many('g', '{bob}');
rollback;

-- Checks run in parallel workers, and see the leader's adds.
create table names as select 'p' || i as name from generate_series(1, 20000) i;
alter table names set (parallel_workers = 2);
analyze names;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
select bloom_create('p', 20000, ready => true);
begin;
select bloom_add_many('p', array(select name from names)) > 19000 as added;
explain (costs off) select count(*) from names where not bloom_might_contain('p', name);
select count(*) as denied from names where not bloom_might_contain('p', name);
commit;
select count(*) as denied from names where not bloom_might_contain('p', name);
drop table f, g, p, names;
