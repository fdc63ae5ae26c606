-- bloom_rebuild and bloom_grow in one session: what they do, keep and refuse.
create table users as select 'user' || i as username from generate_series(1, 20000) i;
-- ("none", since what "lower" does beyond ASCII goes by the locale, and a notice may say so.)
select bloom_create('f', 40000, chunks => 200, normalization => 'none', source => 'select username from users');
create function told() returns text language sql as $$
    select format('%s, %s chunks, capacity %s, rate %s', status, chunks, capacity, target_fp_rate)
    from bloom_filters where filter = 'f'::regclass $$;
comment on table f is 'names';
create role bloom_reader;
grant select on f to bloom_reader;
create view over_f as select count(*) as rows from f;
prepare checks as select count(*) from users where not bloom_might_contain('f', username);
execute checks;
create table before as select oid, relfilenode as file, relacl::text, obj_description(oid) as comment,
                              (select relfilenode from pg_class where relname = 'f_pkey') as key_file
from pg_class where oid = 'f'::regclass;

-- Deleted names leave, names that never went through sign-up come, adds stay.
delete from users where username like '%7';
insert into users values ('Byte'), ('Žofie');
select bloom_add('f', 'without a user');
call bloom_rebuild('f', 'select username from users', grace => '0', min_share => 0.5);
select told();
execute checks;
select bloom_might_contain_many('f', '{Byte,Žofie,user17,user27,user37,without a user}');
select count(*) filter (where bloom_might_contain('f', 'user' || i || '7')) < 20 as left from generate_series(1, 1999) i;
-- It is the same relation with other files.
select b.oid = c.oid as oid, b.relacl = c.relacl::text as acl, b.comment = obj_description(c.oid) as comment,
       b.file <> c.relfilenode and b.key_file <> k.relfilenode as files, rows
from before b, pg_class c, pg_class k, over_f where c.oid = 'f'::regclass and k.relname = 'f_pkey';
select relname from pg_class where relname ~ '^bloom_[0-9]+_(journal|shadow)';
select count(*) as locks from pg_locks where locktype = 'object' and objsubid > 30000;
set role bloom_reader;
select bloom_might_contain('f', 'Byte');
reset role;
select bloom_add('f', 'later'), bloom_might_contain('f', 'later');
update f set bits = bits | mask from username_bits('by hand', 200) u where f.chunk = u.chunk;
select bloom_might_contain('f', 'by hand');

-- Another size, from values, in passes over ranges of chunks.
set maintenance_work_mem = '1MB';
call bloom_rebuild('f', 'select bloom_agg_chunks(username, 3 * 1174, ''none'') from users;  -- all', 1e6, 0.01, '0', 0.5);
reset maintenance_work_mem;
select told();
execute checks;
-- Over 80 % full it gets larger by itself, for twice what the source yields: the bits of a filter
-- that overflows show fewer. A rate alone changes the size.
insert into users select 'more' || i from generate_series(1, 30000) i;
call bloom_rebuild('f', 'select username from users', 20000, grace => '0');
call bloom_rebuild('f', 'select username from users', grace => '0');
select told();
execute checks;
call bloom_rebuild('f', 'select username from users', 300, 0.2, grace => '0');
call bloom_rebuild('f', 'select username || ''/'' || i from users, generate_series(1, 25) i', grace => '0');
select told(), capacity between 2 * 1200000 * 0.98 and 2 * 1200000 * 1.02 as from_the_source
from bloom_info('f');
-- Never smaller than it is, unless a capacity or another rate is given.
call bloom_rebuild('f', 'select username from users', grace => '0', min_share => 0);
call bloom_rebuild('f', 'select username from users', 40000, 0.01, grace => '0', min_share => 0);
call bloom_grow('f');
call bloom_grow('f');
call bloom_rebuild('f', 'select username || i from users, generate_series(1, 4) i', grace => '0');
call bloom_rebuild('f', 'select username from users', 96000, grace => '0', min_share => 0);
execute checks;
call bloom_rebuild('f', 'select username from users', fp_rate => 0.001, grace => '0');
select told();
execute checks;
-- Grow: twice the chunks, the members, the rate.
select fp_rate as rate_before from bloom_info('f') \gset
call bloom_grow('f');
select told();
execute checks;
select fp_rate / :'rate_before'::float8 between 0.999999 and 1.000001 as same_rate from bloom_info('f');
call bloom_rebuild('f', 'select username from users', grace => '0', min_share => 0.4);
execute checks;

-- What is not ready becomes ready; what is suspended too, but not by growing.
select bloom_create('g', 1000, normalization => 'none');
call bloom_grow('g');
select status from bloom_filters where filter = 'g'::regclass;
call bloom_rebuild('g', 'values (''ada'')', grace => '0');
select status, chunks from bloom_filters where filter = 'g'::regclass;
select bloom_suspend('g');
call bloom_rebuild('g', 'values (''ada''), (null), (''bob'')', grace => '0');
select bloom_might_contain_many('g', '{ada,bob,eve}');
-- Damaged: a chunk is missing.
alter table g disable trigger bloom_filter;
delete from g where chunk = 70;
alter table g enable always trigger bloom_filter;
select status, advice from bloom_filters where filter = 'g'::regclass;
call bloom_rebuild('g', 'values (''ada''), (''bob'')', grace => '0');
select bloom_might_contain_many('g', '{ada,bob,eve}');
-- The last ones are, all are; a row does not hold its bits. That is what a rebuild is for.
alter table g disable trigger user;
delete from g where chunk > 250;
alter table g enable always trigger bloom_filter, enable always trigger bloom_filter_truncate;
select bloom_might_contain('g', 'ada');
call bloom_grow('g');
call bloom_rebuild('g', 'values (''ada''), (''bob'')', grace => '0');
alter table g disable trigger user;
create table wide (chunk int, bits bit(8192), filler text);
alter table wide alter filler set storage plain;
insert into wide select 3, 0::bit(8192), repeat('x', 1500);
update g set bits = wide.bits from wide where g.chunk = wide.chunk;
select pg_column_size(bits) < 1000 as compressed from g where chunk = 3;
alter table g enable always trigger bloom_filter, enable always trigger bloom_filter_truncate;
call bloom_rebuild('g', 'values (''ada''), (''bob'')', grace => '0');
alter table g disable trigger user;
truncate g;
alter table g enable always trigger bloom_filter, enable always trigger bloom_filter_truncate;
call bloom_rebuild('g', 'values (''ada''), (''bob'')', grace => '0');
select status, bloom_might_contain_many('g', '{ada,bob,eve}') from bloom_info('g');
drop table wide;
-- Names are lowered as adds lower them.
set client_min_messages = warning;
select bloom_create('lowered', 1000, ready => true);
call bloom_rebuild('lowered', 'values (''ADA'')', grace => '0');
reset client_min_messages;
select bloom_might_contain_many('lowered', '{ada,Ada,eve}');
drop table lowered;
-- Adopted, without a capacity.
create table h (chunk int primary key, bits bit(8192) not null);
insert into h select i, 0::bit(8192) from generate_series(0, 149) i;
select bloom_register('h', 'none');
call bloom_rebuild('h', 'values (''ada'')', fp_rate => 0.1, grace => '0');
call bloom_rebuild('h', 'values (''ada'')', grace => '0');
select status, chunks, capacity from bloom_filters where filter = 'h'::regclass;
call bloom_rebuild('h', 'values (''ada'')', 1e5, 0.1, '0');
select status, chunks, capacity from bloom_filters where filter = 'h'::regclass;

-- Adopted, with its columns in another order: the new rows would not fit.
create table other_order (bits bit(8192) not null, chunk int primary key);
insert into other_order select 0::bit(8192), i from generate_series(0, 149) i;
select bloom_register('other_order', 'none');
call bloom_rebuild('other_order', 'values (''ada'')', grace => '0');
drop table other_order;
-- Sixteen gigabytes are not made by a slip.
call bloom_rebuild('h', 'values (''ada'')', 1e11, grace => '0');
-- A source that adds would lose what it adds: it only reads.
call bloom_rebuild('h', 'select case when bloom_add(''h'', ''eve'') then ''ada'' else ''bob'' end', grace => '0', min_share => 0);
call bloom_rebuild('h', 'values (''ada'')', grace => '0');

-- Too few names: one shard of sixteen is missing, or all are.
call bloom_rebuild('f', 'select username from users where left(md5(username), 1) <> ''3''', grace => '0');
select status, advice from bloom_filters where filter = 'f'::regclass;
execute checks;
call bloom_rebuild('f', 'select username from users where false', grace => '0');
call bloom_rebuild('f', 'select null::text', grace => '0');
-- What broke off leaves nothing behind, and the next begins anew.
select relname as left_behind from pg_class where relname ~ '^bloom_[0-9]+_';
select name as left_behind from pg_ls_tmpdir() where name ~ 'bloom';
select bloom_add('f', 'after it broke off');
update f set bits = bits | mask from username_bits('by hand', (select chunks from bloom_filters where filter = 'f'::regclass)) u
where f.chunk = u.chunk;
call bloom_rebuild('f', 'select username from users where false', grace => '0', min_share => 0);
select relname from pg_class where relname ~ '^bloom_[0-9]+_(journal|shadow)';
select status, items from bloom_filters where filter = 'f'::regclass;
call bloom_rebuild('f', 'select username from users', 50000, grace => '0');
execute checks;

-- Refused before anything is done.
call bloom_rebuild('f', 'users');
call bloom_rebuild('f', 'select 1');
call bloom_rebuild('f', 'select username, 1 from users');
call bloom_rebuild('f', 'select username from users; select 1');
call bloom_rebuild('f', 'delete from users');
call bloom_rebuild('f', 'select nothing from users');
call bloom_rebuild('f', null);
call bloom_rebuild(null, 'select username from users');
call bloom_rebuild('users', 'select username from users');
call bloom_rebuild('f', 'select username from users', 0.01);
call bloom_rebuild('f', 'select username from users', 1e6, 5);
call bloom_rebuild('f', 'select username from users', grace => '-1 s');
call bloom_rebuild('f', 'select username from users', grace => '2 days');
call bloom_rebuild('f', 'select username from users', min_share => 97);
call bloom_grow(null);
call bloom_grow('users');
begin;
call bloom_rebuild('f', 'select username from users');
rollback;
do $$ begin execute 'call bloom_grow(''f'')'; call bloom_grow('f'); end $$;
create function inside() returns void language plpgsql as $$ begin call bloom_grow('f'); end $$;
select inside();
set role bloom_reader;
call bloom_rebuild('f', 'select ''ada''');
call bloom_grow('f');
reset role;
-- A session's default is no reason to refuse.
set default_transaction_read_only = on;
call bloom_rebuild('f', 'select username from users', grace => '0');
reset default_transaction_read_only;
set client_min_messages = error;
create publication bloom_all for table f;
call bloom_rebuild('f', 'select username from users');
drop publication bloom_all;
create publication bloom_all for all tables;
call bloom_grow('f');
drop publication bloom_all;
reset client_min_messages;
-- A source that fails half way; rows that its policies hide.
call bloom_rebuild('f', 'select username || (1 / (length(username) - 7))::text from users', grace => '0');
select status from bloom_filters where filter = 'f'::regclass;
execute checks;
alter table users enable row level security;
create policy few on users using (username < 'user3');
alter table f owner to bloom_reader;
grant select on users to bloom_reader;
grant create on schema public to bloom_reader;
set role bloom_reader;
call bloom_rebuild('f', 'select username from users', grace => '0', min_share => 0);
reset role;
alter table users disable row level security;
set role bloom_reader;
call bloom_rebuild('f', 'select username from users', grace => '0');
reset role;
select told();
execute checks;
-- At whatever isolation level transactions begin.
set default_transaction_isolation = 'repeatable read';
call bloom_rebuild('f', 'select username from users', grace => '0');
set default_transaction_isolation = 'serializable';
call bloom_grow('f');
reset default_transaction_isolation;
execute checks;
-- A broken-off rebuild goes with the filter.
call bloom_rebuild('g', 'select null::text', grace => '0');
drop table f, g, h, users, before cascade;
select relname from pg_class where relname ~ '^bloom_[0-9]+_(journal|shadow)';
drop function told, inside;
revoke create on schema public from bloom_reader;
drop role bloom_reader;
