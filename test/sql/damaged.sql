-- A damaged filter raises XX001; it never says no.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
select bloom_create('f', 1000, ready => true);
select bloom_add('f', 'ada');
select bloom_chunk('ada', 128) as ada_chunk, bloom_chunk('bob', 128) as bob_chunk \gset

-- A row is lost: names of that chunk are an error, others go on.
alter table f disable trigger bloom_filter;
delete from f where chunk = :ada_chunk;
alter table f enable always trigger bloom_filter;
select bloom_might_contain('f', 'ada');
select bloom_add('f', 'ada');
select bloom_might_contain_many('f', '{bob,ada}');
select bloom_add_many('f', '{bob,ada}');
select bloom_might_contain('f', 'bob');
select status, advice, items from bloom_filters where filter = 'f'::regclass;
select bloom_resume('f');
\set VERBOSITY sqlstate
select bloom_might_contain('f', 'ada');
\set VERBOSITY default
insert into f values (:ada_chunk, 0::bit(8192) + 'ada');
select bloom_might_contain('f', 'ada'), bloom_might_contain('f', 'bob');

-- One row short, one too many, none.
alter table f disable trigger bloom_filter;
delete from f where chunk = 127;
alter table f enable always trigger bloom_filter;
select bloom_might_contain('f', 'bob');
select bloom_add('f', 'bob');
insert into f values (127, 0::bit(8192));
select bloom_might_contain('f', 'bob');
insert into f values (128, 0::bit(8192));
alter table f set (fillfactor = 81);
select bloom_might_contain('f', 'bob');
alter table f disable trigger bloom_filter;
delete from f where chunk = 128;
alter table f enable always trigger bloom_filter;
select bloom_might_contain('f', 'bob');
create table copy as select * from f;
truncate f;  -- refused
\set empty_f 'alter table f disable trigger bloom_filter_truncate; truncate f; alter table f enable always trigger bloom_filter_truncate;'
:empty_f
select bloom_might_contain('f', 'bob');
select filter, status from bloom_filters where filter = 'f'::regclass;
insert into f select * from copy order by chunk;
select bloom_might_contain('f', 'bob'), bloom_might_contain('f', 'ada');

-- Rows in another order are found through the index; so are rows that moved.
:empty_f
insert into f select * from copy order by chunk desc;
select bloom_might_contain('f', 'bob'), bloom_might_contain('f', 'ada');
:empty_f
insert into f select * from copy order by chunk;
alter table f disable trigger bloom_filter;
delete from f where chunk < 60;
vacuum f;
insert into f select * from copy where chunk < 60 order by chunk desc;
alter table f enable always trigger bloom_filter;
select count(*) as denied from unnest('{ada}'::text[]) n where not bloom_might_contain('f', n);
select bloom_add_many('f', array(select 'n' || i from generate_series(1, 300) i)) > 290 as added;
select count(*) as denied
from generate_series(1, 300) i where not bloom_might_contain('f', 'n' || i);
drop table copy;

-- Settings that are not ours: a newer layout, unknown, missing, twice, out of range.
create function damage(was text, becomes text) returns text language plpgsql as $$
declare
    definition text := pg_get_triggerdef(oid) from pg_trigger
                       where tgrelid = 'f'::regclass and tgname = 'bloom_filter';
    answer text;
begin
    execute replace(replace(definition, 'CREATE TRIGGER', 'CREATE OR REPLACE TRIGGER'), was, becomes);
    alter table f enable always trigger bloom_filter;
    begin
        answer := bloom_might_contain('f', 'nobody');
    exception when others then
        get stacked diagnostics answer = pg_exception_detail;
        answer := sqlstate || ' ' || sqlerrm || ': ' || answer;
    end;
    execute replace(definition, 'CREATE TRIGGER', 'CREATE OR REPLACE TRIGGER');
    alter table f enable always trigger bloom_filter;
    return answer;
end $$;
select was, becomes, damage(was, becomes)
from (values ('layout=1', 'layout=2'), ('layout=1', 'layout='), ('layout=1', 'shape=1'),
             ('''layout=1'', ', ''), ('chunks=128', 'chunks=129'), ('chunks=128', 'chunks=127'),
             ('chunks=128', 'chunks=256'), ('chunks=128', 'chunks=-1'), ('chunks=128', 'chunks=128x'),
             ('chunks=128', 'chunks=99999999999'), ('''chunks=128''', '''chunks=128'', ''chunks=128'''),
             ('normalization=lower', 'normalization=title'), ('state=ready', 'state=maybe'),
             ('fp_rate=0.01', 'fp_rate=-1'), ('fp_rate=0.01', 'fp_rate=nan'),
             ('canary_ascii=', 'canary_ascii=z'), ('timeline=', 'timeline=x'), ('timeline=', 'tide='),
             ('columns=1:2', 'columns=1'), ('columns=1:2', 'columns=1:2:3'), ('columns=1:2', 'columns=2:1')) v (was, becomes);
select bloom_might_contain('f', 'nobody'), bloom_might_contain('f', 'ada');
drop function damage;
drop table f;
