-- Rows that are not in order are found through the index once, and then where they were found; what
-- is there by then is asked for its number.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
create table names as select 'n' || i as name from generate_series(1, 5000) i;
select bloom_create('f', 50000, source => 'select name from names', chunks => 200);
create table copy as table f;
create table scattered (chunk int primary key, bits bit(8192) not null) with (fillfactor = 80);
insert into scattered select * from f order by chunk * 37 % 200;
select bloom_register('scattered', 'lower');
create function denied(out denied bigint, out index_scans bigint) language plpgsql as $$
declare
    before bigint := pg_stat_get_xact_numscans('scattered_pkey'::regclass);
begin
    denied := (select count(*) from names where not bloom_might_contain('scattered', name));
    index_scans := pg_stat_get_xact_numscans('scattered_pkey'::regclass) - before;
end $$;
begin;
select denied, index_scans > 150 as learned from denied();
select * from denied();
select bloom_add_many('scattered', array(select 'm' || i from generate_series(1, 5000) i)) > 4900 as added;
select * from denied();
commit;
select * from denied();
select count(*) as denied
from generate_series(1, 5000) i where not bloom_might_contain('scattered', 'm' || i);

-- Elsewhere, all of them.
vacuum full scattered;
select denied, index_scans > 150 as learned from denied();
select * from denied();
cluster scattered using scattered_pkey;
select denied from denied();
-- Other rows where they were.
alter table scattered disable trigger bloom_filter;
create table moved as select * from scattered where chunk % 3 = 0;
delete from scattered where chunk % 3 = 0;
alter table scattered enable always trigger bloom_filter;
vacuum scattered;
insert into scattered select * from moved order by chunk desc;
select denied from denied();
select * from denied();
select count(*) as denied
from generate_series(1, 5000) i where not bloom_might_contain('scattered', 'm' || i);
-- Gone again: what a rolled-back transaction remembered.
begin;
select count(bloom_add('scattered', 'r' || i)) from generate_series(1, 2000) i;
select count(*) as denied
from generate_series(1, 2000) i where not bloom_might_contain('scattered', 'r' || i);
rollback;
select denied from denied();
select count(*) > 1800 as gone
from generate_series(1, 2000) i where not bloom_might_contain('scattered', 'r' || i);
drop table names, f, copy, scattered, moved;
drop function denied;
