-- Both ways between filter table and value.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
create table source as
select case when i % 50 = 0 then 'Žofie' || i else 'Name' || i end as name from generate_series(1, 20000) i;
select bloom_create('added', 100000, chunks => 200, ready => true);
select bloom_create('merged', 100000, chunks => 200, ready => true);
select bloom_create('loaded', 100000, chunks => 200, source => 'select name from source');
select bloom_create('by_value', 100000, chunks => 200, source => $$
    select bloom_agg_chunks(name, 200, 'lower') from source$$);
-- Several values, folded, beside each other; in passes over ranges of chunks.
set maintenance_work_mem = '1MB';
select bloom_create('by_values', 1e6, chunks => 1500, source => $$
    select bloom_agg_chunks(name, 1500 * (1 + length(name) % 3), 'lower') from source group by length(name)$$);
select bloom_create('by_names', 1e6, chunks => 1500, source => 'select name from source');
reset maintenance_work_mem;
select count(bloom_add('added', name)) as added from source;
-- The very rows.
select bloom_merge('merged', bloom_agg_chunks(name, 200, 'lower'))
       = (select sum(bit_count(bits)) from added) as merged from source;
create function different(one regclass, other regclass) returns bigint language plpgsql as $$
declare
    n bigint;
begin
    execute format('select count(*) from %s one full join %s other using (chunk)
                    where one.bits is distinct from other.bits', one, other) into n;
    return n;
end $$;
select different('added', 'merged') as merged, different('added', 'loaded') as loaded,
       different('added', 'by_value') as by_value, different('by_names', 'by_values') as by_values;
select bloom_value('added') = bloom_agg_chunks(name, 200, 'lower') as value_back from source;
-- Again: nothing is new, and nothing is written.
create temp table before as select chunk as of, ctid as place, xmin::text as writer from merged;
select bloom_merge('merged', bloom_agg_chunks(name, 200, 'lower')) as again from source;
select count(*) as rewritten from merged m join before on chunk = of where m.ctid <> place or m.xmin::text <> writer;
-- A multiple of the chunks is folded; what is there stays; each row is written once.
begin;
select pg_stat_get_xact_tuples_updated('merged'::regclass) as updated \gset
select bloom_merge('merged', bloom_agg_chunks('more' || i, 600, 'lower')) > 0 as folded from generate_series(1, 1000) i;
select pg_stat_get_xact_tuples_updated('merged'::regclass) - :updated between 190 and 200 as once;
commit;
select bool_and(bloom_might_contain('merged', 'MORE' || i)) as more from generate_series(1, 1000) i;
select bool_and(bloom_might_contain('merged', name)) as still from source;
begin;
select bloom_merge('merged', bloom_agg_chunks('gone', 200, 'lower')) > 0 as merged;
select bloom_might_contain('merged', 'gone') as before;
rollback;
select bloom_might_contain('merged', 'gone') as rolled_back;

-- Chunks as rows, to a table that is adopted.
create table by_hand (chunk int primary key, bits bit(8192) not null);
insert into by_hand select * from bloom_chunks((select bloom_value('added')));
select bloom_register('by_hand', 'lower', 100000, known => array['name1', 'Žofie50']);
select different('added', 'by_hand') as by_hand, bloom_might_contain('by_hand', 'NAME7') as member,
       bloom_might_contain('by_hand', 'nobody') as other;
-- All shapes of a table: normalization none.
select bloom_create('none', 1000, normalization => 'none', source => $$values ('Ada'), ('Žofie')$$);
select v @> 'Ada' as ada, v @> 'ada' as lower, v @> 'Žofie' as beyond, bloom_merge('none', v) as nothing_new
from bloom_value('none') v;

-- Refused: null, another normalization, k, size of chunk, number of chunks; another server's.
select bloom_merge('merged', null);
select bloom_merge(null, bloom_agg_chunks('ada', 200, 'lower'));
select bloom_merge('merged', bloom_agg_chunks('ada', 200, 'none'));
select bloom_merge('merged', bloom_agg_chunks('ada', 300, 'lower'));
select bloom_merge('merged', bloom_agg_chunks('ada', 100, 'lower'));
select bloom_merge('merged', bloom_empty(100000, 1e-6));
select bloom_merge('merged', bloom_empty(100));
select bloom_merge('none', overlay(v::bytea placing '\xab4ed2e3' from 9)::bloomfilter) from bloom_value('none') v;
select bloom_merge('source', bloom_agg_chunks('ada', 200, 'lower'));
select * from bloom_chunks(bloom_empty(100));
select * from bloom_chunks(bloom_empty(100000, 1e-6));
select count(*) from bloom_chunks((select overlay(bloom_value('none')::bytea placing '\xab4ed2e3' from 9)::bloomfilter));
select bloom_create('bad', 1000, chunks => 200, source => $$select bloom_agg_chunks('ada', 300, 'lower')$$);
select bloom_create('bad', 1000, chunks => 200, source => $$values (null::bloomfilter)$$);
-- A filter that may lack names does not become a value that would deny them.
select bloom_suspend('added');
select bloom_value('added');
select bloom_merge('added', bloom_agg_chunks('while suspended', 200, 'lower')) > 0 as merged;
select bloom_resume('added');
select bloom_might_contain('added', 'while suspended') as member, bloom_value('added') @> 'while suspended' as value;
set client_min_messages = notice;
select bloom_create('loading', 1000, normalization => 'none');
set client_min_messages = warning;
select bloom_value('loading');
select bloom_value(null);
select bloom_value('source');
begin read only;
select bloom_merge('merged', bloom_agg_chunks('ada', 200, 'lower'));
rollback;

-- Merge needs what an add needs, a value what a check needs.
create role bloom_reader;
grant select on merged to bloom_reader;
set role bloom_reader;
select bloom_value('merged') @> 'name1' as member;
select bloom_merge('merged', bloom_agg_chunks('ada', 200, 'lower'));
reset role;
grant insert on merged to bloom_reader;
revoke select on merged from bloom_reader;
set role bloom_reader;
select bloom_value('merged');
select bloom_merge('merged', bloom_agg_chunks('ada', 200, 'lower'));
reset role;
grant select on merged to bloom_reader;
set role bloom_reader;
select bloom_merge('merged', bloom_agg_chunks('ada', 200, 'lower')) > 0 as merged;
reset role;
drop table source, added, merged, loaded, by_value, by_values, by_names, by_hand, "none", loading;
drop role bloom_reader;
drop function different;
