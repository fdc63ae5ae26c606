-- A row that the very command changes is not changed by an add from within it: the server would
-- say that it tried to update an invisible tuple.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
select bloom_create('f', 1000, ready => true);
select bloom_chunk('ada', 128) as ada \gset
update f set bits = bits + 'ada' where chunk = :ada returning bloom_add('f', 'ada'); -- it is there
update f set bits = bits | bits where chunk = :ada returning bloom_add_many('f', '{ada}');
select n as other from (select 'n' || i as n from generate_series(1, 10000) i) n
where bloom_chunk(n, 128) = :ada and not bloom_might_contain('f', n) limit 1 \gset
update f set bits = bits | bits where chunk = :ada returning bloom_add_many('f', array[:'other']);
update f set bits = bits | bits where chunk = :ada returning bloom_add('f', :'other');
with changed as (update f set bits = bits | bits where chunk = :ada returning chunk)
select bloom_add('f', :'other') from changed;
select bloom_agg_chunks(:'other', 128, 'lower') as value \gset
update f set bits = bits | bits where chunk = :ada returning bloom_merge('f', :'value');
\set VERBOSITY sqlstate
update f set bits = bits | bits where chunk = :ada returning bloom_add('f', :'other');
\set VERBOSITY default
-- A row of another chunk, and the next command, may.
update f set bits = bits | bits where chunk = (:ada + 1) % 128 returning bloom_add('f', :'other');
begin;
update f set bits = bits | bits where chunk = :ada;
select bloom_add('f', :'other' || 'x') is not null as added;
commit;
select bloom_might_contain_many('f', array['ada', :'other', :'other' || 'x']);
drop table f;
