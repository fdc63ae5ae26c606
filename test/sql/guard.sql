-- The guard: nothing clears a bit of a filter table.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
select bloom_create('f', 1000, ready => true);
select bloom_add('f', 'ada');
select bloom_chunk('ada', 128) as ada_chunk \gset
delete from f;
delete from f where chunk = 5;
truncate f;
update f set bits = 0::bit(8192);
update f set bits = set_bit(bits, 619, 0) where chunk = :ada_chunk;
update f set chunk = chunk + 1000;
update f set bits = ~bits where chunk = :ada_chunk;
insert into f values (:ada_chunk, 0::bit(8192)) on conflict (chunk) do update set bits = excluded.bits;
update f set bits = null where chunk = 5;
update f set bits = b'1' where chunk = 5;
\set VERBOSITY sqlstate
delete from f where chunk = 5;
\set VERBOSITY default
select bloom_might_contain('f', 'ada'), sum(bit_count(bits)), count(*) from f;

-- Setting bits, or none, passes.
update f set bits = bits;
update f set bits = bits + 'bob';
update f set bits = bits | (username_bits('eve')).mask where chunk = bloom_chunk('eve', 128);
insert into f values (:ada_chunk, 0::bit(8192) + 'dan')
on conflict (chunk) do update set bits = f.bits | excluded.bits;
select bloom_might_contain_many('f', '{ada,bob,eve,nobody}');

-- Also with the triggers of a replica.
set session_replication_role = replica;
truncate f;
delete from f where chunk = 5;
update f set bits = 0::bit(8192) where chunk = :ada_chunk;
reset session_replication_role;

-- A filter that has been resized refuses statements that bring their own number of chunks: they may
-- have been written when it was another. Its own functions know.
\set by_hand 'update f set bits = bits | (username_bits(''ray'', 128)).mask where chunk = bloom_chunk(''ray'', 128)'
:by_hand;
call bloom_grow('f');
:by_hand;
update f set bits = bits;
insert into f values (:ada_chunk, 0::bit(8192) + 'dan')
on conflict (chunk) do update set bits = f.bits | excluded.bits;
\set VERBOSITY sqlstate
:by_hand;
\set VERBOSITY default
set session_replication_role = replica;
:by_hand;
reset session_replication_role;
delete from f where chunk = 5;
select bloom_might_contain('f', 'ray');
select bloom_add('f', 'zoe'), bloom_add_many('f', '{amy}'),
       bloom_merge('f', (select bloom_agg_chunks('max', 256, 'lower'))) > 0 as merged;
select bloom_might_contain_many('f', '{zoe,amy,max,nobody}');
-- For good: also after it is suspended and resumed, and rebuilt to the size that it had.
select bloom_suspend('f');
select bloom_resume('f');
:by_hand;
call bloom_rebuild('f', $$select 'ada'$$, capacity => 1000, grace => '0', min_share => 0);
select chunks from bloom_info('f');
:by_hand;
-- A rebuild that keeps the number of chunks refuses nothing.
select bloom_create('same', 1000, ready => true);
call bloom_rebuild('same', $$select 'ada'$$, grace => '0', min_share => 0);
update same set bits = bits | (username_bits('ray', 128)).mask where chunk = bloom_chunk('ray', 128);
drop table same;

-- Where it does not belong.
create table t (a int);
create trigger guard after update on t for each row execute function bloom_guard();
insert into t values (1);
update t set a = 2;
create or replace trigger guard before update on t for each row execute function bloom_guard();
update t set a = 2;
create or replace trigger guard before insert on t for each row execute function bloom_guard();
insert into t values (1);
select bloom_guard();
drop table t, f;
