-- A source that uses $1, the number of chunks that the filter gets.
create table users_0 as select 'n' || g as username from generate_series(1, 3000) g;
create table users_1 as select 'm' || g as username from generate_series(1, 3000) g;
create view users as table users_0 union all table users_1;
\set source 'select bloom_union_agg(v) from (select bloom_agg_chunks(username, $1, ''none'') v from users_0 union all select bloom_agg_chunks(username, $1, ''none'') from users_1) u'
create function denied(filter regclass) returns bigint language sql as
    'select count(*) from users where not bloom_might_contain(filter, username)';

-- bloom_create: the chunks of its capacity, or those that are given.
select bloom_create('f', 2e5, normalization => 'none', source => :'source');
select bloom_create('g', 2e5, normalization => 'none', source => 'select username from users');
select (bloom_value_info(bloom_value('f'))).chunks, bloom_value('f') = bloom_value('g') as same;
drop table g;
select bloom_create('g', 2e5, normalization => 'none', chunks => 333, source => :'source');
select (bloom_value_info(bloom_value('g'))).chunks, denied('g');

-- bloom_rebuild: those that the filter has, those of a capacity that is given.
call bloom_rebuild('f', :'source', grace => '0');
call bloom_rebuild('f', :'source', 3e5, grace => '0');
call bloom_rebuild('f', :'source', fp_rate => 0.02, grace => '0');
select denied('f');

-- Nearly full: it is decided before the source is read, by what the filter holds.
drop table f, g;
select bloom_create('f', 7000, normalization => 'none', chunks => 128, source => :'source');
insert into users_1 select 'o' || g from generate_series(1, 200000) g;
select bloom_create('filled', 2e5, normalization => 'none', source => :'source');
call bloom_rebuild('filled', 'select bloom_agg_chunks(username, 235, ''none'') from users', grace => '0');
call bloom_rebuild('filled', :'source', grace => '0');
select denied('filled');
-- It grows by what it holds now, and the source has more than that.
select bloom_create('g', 7000, normalization => 'none', source => 'select username from users_0 limit 5700');
insert into users_0 select 'p' || g from generate_series(1, 4000) g;
call bloom_rebuild('g', 'select bloom_agg_chunks(username, $1, ''none'') from users_0', grace => '0');
call bloom_rebuild('g', 'select bloom_agg_chunks(username, $1, ''none'') from users', grace => '0');
call bloom_rebuild('g', 'select bloom_agg_chunks(username, $1, ''none'') from users', grace => '0');
select denied('g');
-- So is the size for a source of names that uses it.
call bloom_rebuild('f', 'select username from users where $1 > 5', 1000, grace => '0');
-- A filter of unknown capacity keeps its chunks.
create table h (chunk int primary key, bits bit(8192) not null);
insert into h select c.* from (select bloom_agg_chunks('x', 200, 'none') v) x, bloom_chunks(v) c;
select bloom_register('h', 'none');
call bloom_rebuild('h', 'select bloom_agg_chunks(username, $1, ''none'') from users', grace => '0');
select denied('h');

-- However the server plans, and by workers.
set plan_cache_mode = force_custom_plan;
call bloom_rebuild('h', :'source', grace => '0');
reset plan_cache_mode;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
call bloom_rebuild('h', 'select bloom_agg_chunks(username, $1, ''none'') from users_1', min_share => 0, grace => '0');
select count(*) from users_1 where not bloom_might_contain('h', username);

-- What is refused: another parameter, another use, another normalization, more chunks than a value has.
select bloom_create('bad', 1000, source => 'select username from users where username = $2');
call bloom_rebuild('h', 'select username from users limit $17', grace => '0');
-- The server's own hint differs between versions.
do $$
declare
    context text;
begin
    perform bloom_create('bad', 1000, source => 'select username from users where username = $1');
exception when undefined_function then
    get stacked diagnostics context = pg_exception_context;
    raise warning '%: %', sqlerrm, split_part(context, E'\n', 1);
end $$;
select bloom_create('bad', 1000, source => 'select $1');
call bloom_rebuild('h', 'select bloom_agg_chunks(username, $1, ''lower'') from users', grace => '0');
\set VERBOSITY terse
call bloom_rebuild('h', 'select bloom_agg_chunks(username, $1) from users', grace => '0');
\set VERBOSITY default
call bloom_rebuild('h', 'select bloom_agg_chunks(username, $1 + 1, ''none'') from users', grace => '0');
select bloom_create('bad', 1000, normalization => 'none', chunks => 300000, source => 'select bloom_agg_chunks(username, $1, ''none'') from users');

drop table f, filled, g, h;
drop function denied;
drop view users;
drop table users_0, users_1;
