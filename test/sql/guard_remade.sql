-- A guard that is there but fires less often than it was made to: names may be gone, and the
-- filter is of no use.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
select bloom_create('f', 1000, ready => true);
select bloom_add('f', 'ada');
create function remake(guard text, was text, becomes text) returns text language plpgsql as $$
declare
    definition text := pg_get_triggerdef(oid) from pg_trigger
                       where tgrelid = 'f'::regclass and tgname = guard;
    answer text;
begin
    execute regexp_replace(replace(definition, 'CREATE TRIGGER', 'CREATE OR REPLACE TRIGGER'),
                           was, becomes);
    execute format('alter table f enable always trigger %I', guard);
    begin
        answer := bloom_add('f', 'bob');
        answer := bloom_might_contain('f', 'nobody');
    exception when others then
        get stacked diagnostics answer = pg_exception_detail;
        answer := sqlstate || ' ' || answer;
    end;
    answer := answer || (select ' / ' || status from bloom_filters where filter = 'f'::regclass);
    execute replace(definition, 'CREATE TRIGGER', 'CREATE OR REPLACE TRIGGER');
    execute format('alter table f enable always trigger %I', guard);
    return answer;
end $$;
select becomes, remake(guard, was, becomes)
from (values ('bloom_filter', 'EXECUTE', 'WHEN (old.chunk < 0) EXECUTE'),
             ('bloom_filter', 'UPDATE', 'UPDATE OF chunk'),
             ('bloom_filter', 'UPDATE', 'UPDATE OF chunk, bits'),
             ('bloom_filter', 'DELETE OR UPDATE', 'UPDATE'),
             ('bloom_filter', 'DELETE OR UPDATE', 'DELETE'),
             ('bloom_filter', 'DELETE OR UPDATE', 'INSERT OR DELETE OR UPDATE'),
             ('bloom_filter', 'BEFORE', 'AFTER'),
             ('bloom_filter', 'FOR EACH ROW', 'FOR EACH STATEMENT'),
             ('bloom_filter_truncate', 'EXECUTE', 'WHEN (false) EXECUTE'),
             ('bloom_filter_truncate', 'BEFORE', 'AFTER'),
             ('bloom_filter_truncate', 'TRUNCATE ON', 'INSERT ON')) v (guard, was, becomes);
select bloom_might_contain('f', 'ada'), bloom_might_contain('f', 'nobody');
drop function remake;

-- Another column in the place of the one that has the bits.
create table copy as table f;
alter table f add column other bit(8192);
alter table f disable trigger bloom_filter;
update f set other = 0::bit(8192);
alter table f enable always trigger bloom_filter;
alter table f drop column bits, alter column other set not null;
alter table f rename column other to bits;
select bloom_might_contain('f', 'ada');
select bloom_add('f', 'ada');
select status, advice from bloom_filters where filter = 'f'::regclass;
select bloom_resume('f');
vacuum full f;
select bloom_might_contain('f', 'ada');
-- Adopted anew it is another filter, whose names its owner vouches for.
drop trigger bloom_filter on f;
drop trigger bloom_filter_truncate on f;
select bloom_register('f', 'lower', known => '{ada}');
select bloom_register('f', 'lower');
select bloom_might_contain('f', 'ada'), bloom_add('f', 'ada'), bloom_might_contain('f', 'ada');
select regexp_match(pg_get_triggerdef(oid), 'columns=\d+:\d+') from pg_trigger
where tgrelid = 'f'::regclass and tgname = 'bloom_filter';

-- Other numbers are as bad: each row would be another chunk's.
alter table f add column number int;
alter table f disable trigger bloom_filter;
update f set number = 127 - chunk;
alter table f enable always trigger bloom_filter;
alter table f drop column chunk;
alter table f rename column number to chunk;
alter table f add primary key (chunk);
select bloom_might_contain('f', 'ada');
drop trigger bloom_filter on f;
drop trigger bloom_filter_truncate on f;
select bloom_register('f', 'lower');

-- A dump numbers columns anew: the restored table is a copy, suspended, until bloom_resume.
select replace(pg_get_triggerdef(oid), ' ON public.f ', ' ON public.restored ') as guard
from pg_trigger where tgrelid = 'f'::regclass order by tgname limit 1 \gset
create table restored (chunk int primary key, bits bit(8192) not null);
insert into restored select chunk, bits from f order by chunk;
:guard;
create trigger bloom_filter_truncate before truncate on restored execute function bloom_guard();
alter table restored enable always trigger bloom_filter, enable always trigger bloom_filter_truncate;
select status from bloom_info('restored');
reset client_min_messages;
select bloom_might_contain('restored', 'nobody');
select bloom_resume('restored');
select bloom_might_contain('restored', 'ada'), bloom_might_contain('restored', 'nobody');
select regexp_match(pg_get_triggerdef(oid), 'columns=\d+:\d+') from pg_trigger
where tgrelid = 'restored'::regclass and tgname = 'bloom_filter';
drop table f, copy, restored;
