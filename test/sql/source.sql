-- The query that a filter is loaded from: run once, only reading, in memory and beyond it.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
create table q as select 'm' || g as n from generate_series(1, 20000) g;
create table q0 as table q;

-- It must not write: what it took away would be lost if the load failed later.
select bloom_create('art', 1e8, source => 'with m as (delete from q returning n) select n from m');
select bloom_create('art', 1e8, source => 'delete from q returning n');
select bloom_create('art', 1e8, source => 'select n from q for update');
select bloom_create('art', 1e8, source => 'explain select n from q');
create function pop() returns setof text language sql as 'delete from q returning n';
select bloom_create('art', 1e8, source => 'select pop()');
create sequence s;
select bloom_create('art', 1e8, source => 'select nextval(''s'')::text');
select bloom_create('art', 1000, ready => true);
call bloom_rebuild('art', 'with m as (delete from q returning n) select n from m', grace => '0');
call bloom_rebuild('art', 'select pop()', grace => '0');
-- Nor does it leave the transaction read-only.
do $$ begin
    perform bloom_create('bad', 1000, source => 'select pop()');
exception when read_only_sql_transaction then
    insert into q values ('written');
    delete from q where n = 'written';
end $$;
begin;
select bloom_create('kept', 1000, source => 'table q');
insert into q values ('written');
rollback;
drop table art;
select count(*) from q;

-- Its column is text, or what the server itself makes text of without being asked; no cast function of
-- anybody's is called, whose caller may not call it.
create type ct as (a text);
create function ct_text(ct, int, boolean) returns text language plpgsql as 'begin raise warning ''called with %'', $2; return $1.a; end';
create cast (ct as text) with function ct_text(ct, int, boolean) as implicit;
select bloom_create('art', 1000, source => 'select row(''x'')::ct');
select bloom_create('art', 1000, source => 'select row(''x'')::ct::text');
drop table art;
drop type ct cascade;
select bloom_create('art', 1000, source => 'values (''Name''::name)');
select bloom_might_contain_many('art', '{name,other}');
call bloom_rebuild('art', 'values (''padded''::char(20))', grace => '0');
select bloom_might_contain_many('art', '{name,padded}');
drop table art;

-- It is run once, however little memory there is and however many chunks.
create function speak(n text) returns text language plpgsql as $$
begin
    if n = 'm1' then raise warning 'the source runs'; end if;
    return n;
end $$;
set maintenance_work_mem = '1MB';
select bloom_create('once', 1e6, chunks => 5003, source => 'select speak(n) from q');
select count(*) from q0 where not bloom_might_contain('once', n);
call bloom_rebuild('once', 'select speak(n) from q', 2e6, grace => '0');
select count(*) from q0 where not bloom_might_contain('once', n);
call bloom_rebuild('once', 'select speak(n) from q', grace => '0');
select count(*) from q0 where not bloom_might_contain('once', n);
drop table once;
-- A load that fails leaves no file behind, nor does its session lack room for others.
set temp_file_limit = '304kB';
\set VERBOSITY sqlstate
select bloom_create('bad', 1e6, chunks => 5003, source => 'select n || i from q, generate_series(1, 10) i');
select bloom_create('small', 1e6, chunks => 5003, ready => true);
call bloom_rebuild('small', 'select n || i from q, generate_series(1, 10) i', grace => '0');
\set VERBOSITY default
select count(*) as files from pg_ls_tmpdir();
set work_mem = '64kB';
select count(*) from (select n || 'a' as sorted from (select n from q limit 6000) q order by 1 offset 0) s;
reset work_mem;
reset temp_file_limit;
drop table small;
-- What may yield other rows each time.
select bloom_create('art', 5e6, source => 'select n from q tablesample bernoulli (50)');
select items between 9000 and 11000 as half from bloom_info('art');
drop table art;

-- In memory and beyond it the bits are the same: of names, short, long and beyond ASCII, and of
-- values, folded or not.
create table names as
select case g % 5 when 0 then repeat('long', 20) || g when 1 then 'Ünicode' || g else 'n' || g end as n
from generate_series(1, 100000) g;
create procedure same(chunks int, source text) language plpgsql as $$
begin
    set local maintenance_work_mem = '64MB';
    perform bloom_create('in_memory', 1e6, chunks => chunks, source => source);
    set local maintenance_work_mem = '1MB';
    perform bloom_create('spooled', 1e6, chunks => chunks, source => source);
    raise warning '% chunks: same %, empty %', chunks, bloom_value('in_memory') = bloom_value('spooled'),
        (select items = 0 from bloom_info('spooled'));
    drop table in_memory, spooled;
end $$;
call same(1025, 'select n from names');
call same(1999, 'select n from names');
call same(2048, 'select n from names');
call same(5003, 'select n from names limit 3000');
call same(5003, 'select n from names union all select null');
call same(1999, 'select bloom_agg_chunks(n, 1999, ''lower'') from names group by length(n)');
call same(1500, 'select bloom_agg_chunks(n, 4500, ''lower'') from names group by length(n) > 9');
select bloom_create('bad', 1e6, chunks => 1500, source => 'select bloom_agg_chunks(n, 4000, ''lower'') from names');
reset maintenance_work_mem;

drop table q, q0, names;
drop function pop, speak;
drop procedure same;
drop sequence s;
