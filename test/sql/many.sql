-- Batches, whose items are hashed side by side and ordered by chunk: the same as one by one, for
-- keys of every length, beyond ASCII, in upper case, empty and null, in whatever company.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
create function items(n int, salt text) returns setof text language sql as $$
select case when i % 97 = 0 then null
            when i % 31 = 0 then 'Žofie-' || salt || i
            when i % 13 = 0 then upper(salt) || i
            when i % 101 = 0 then ''
            else rpad(salt || i, 1 + i % 130, 'xyzw') end
from generate_series(1, n) i $$;
-- More than one digit of the sort, and a number of chunks that fills no power of two.
select bloom_create('f', 100000, chunks => 1000, ready => true);
select bloom_create('one_by_one', 100000, chunks => 1000, ready => true);
begin;
select count(bloom_add('one_by_one', item)) as added from items(5000, 'a') item;
select bloom_add_many('f', array(select * from items(5000, 'a'))) > 4500 as added;
-- Each row is written once.
select pg_stat_get_xact_tuples_updated('f'::regclass) =
       (select count(distinct bloom_chunk(item, 1000)) from items(5000, 'a') item) as once;
commit;
select count(*) as other_rows from f full join one_by_one o using (chunk)
where f.bits is distinct from o.bits;

-- Checks, of members and others, in the order given.
create table asked as
select row_number() over () as i, item
from (select * from items(3000, 'a') union all select * from items(3000, 'b')) names(item)
order by md5(item);
create table answers as
select i, many
from unnest(bloom_might_contain_many('f', array(select item from asked order by i)))
     with ordinality as answer(many, i);
select count(*) as asked, count(*) filter (where many is null) as nulls,
       count(*) filter (where many) between 2900 and 3100 as maybes,
       count(*) filter (where many is distinct from bloom_might_contain('f', item)) as differ
from asked join answers using (i);
-- Batches of every size about those that are hashed together.
select count(*) as sizes, count(*) filter (where answers <> array_fill(true, array[n])) as denied
from generate_series(1, 140) n,
     bloom_might_contain_many('f', array(select item from items(5000, 'a') item
                                         where item is not null limit n)) answers;

-- "none" hashes items as they are.
select bloom_create('n', 1000, normalization => 'none', ready => true);
select bloom_add_many('n', array['Ada', 'ŽOFIE', repeat('Ab', 40), '']) as added,
       bloom_might_contain_many('n', array['Ada', 'ada', 'ŽOFIE', 'žofie', repeat('Ab', 40),
                                           repeat('ab', 40), '', null]) as maybe;
drop table f, one_by_one, n, asked, answers;
drop function items;
