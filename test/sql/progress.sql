-- bloom_progress, as the session itself sees it: a source of bloom_create looks at its own row.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
select attname, format_type(atttypid, atttypmod) as type from pg_attribute
where attrelid = 'bloom_progress'::regclass and attnum > 0 order by attnum;
create table names as select 'user' || i as name, i from generate_series(1, 5000) i;
analyze names;
create view mine as select * from bloom_progress where pid = pg_backend_pid();
select count(*) from mine;

-- Each source passes its names on, and tells at the 600th what bloom_progress shows.
create function look(i int) returns text language plpgsql as $$
declare shown record;
begin
    if i <> 600 then return ''; end if;
    perform pg_stat_clear_snapshot();
    select * into shown from mine;
    raise warning '%, %, names read % of %, chunks % of %, on time %, % left, % in the server''s views',
        shown.command, shown.phase, shown.names_read between 1 and 600, shown.rows_expected,
        shown.chunks_done, shown.chunks_total,
        shown.phase_started_at between shown.started_at and clock_timestamp(),
        shown.phase_time_left is not null,
        (select count(*) from unnest('{vacuum,analyze,create index,basebackup}'::text[]) c,
             pg_stat_get_progress_info(c) where pid = pg_backend_pid());
    return '';
end $$;
create function shows(label text) returns void language plpgsql as $$
begin
    perform bloom_create('f', 2e5, normalization => 'none',
        source => 'select name || look(i) from names');
    perform pg_stat_clear_snapshot();
    raise warning '% is over: % rows', label, (select count(*) from mine);
    drop table f;
end $$;
select shows('a load');

-- An error ends it.
select bloom_create('f', 1000, source => 'select (1 / (i - 4000))::text from names');
select count(*) from mine;
-- So does the rollback of a subtransaction, until the next count.
create function roll_back(i int) returns text language plpgsql as $$
begin
    if i in (590, 4000) then
        perform pg_stat_clear_snapshot();
        raise warning 'name %: % rows', i, (select count(*) from mine);
    end if;
    if i = 590 then
        begin
            perform 1 / (i - i);
        exception when division_by_zero then null;
        end;
        perform pg_stat_clear_snapshot();
        raise warning 'name % after a rollback: % rows', i, (select count(*) from mine);
    end if;
    return '';
end $$;
select bloom_create('f', 10000, source => 'select name || roll_back(i) from names');
drop table f;

-- A command of the server that shows its own progress keeps it.
create function look_at_copy(i int) returns text language plpgsql as $$
begin
    if i = 600 then
        perform pg_stat_clear_snapshot();
        raise warning 'the server shows %, we show % rows',
            (select command || ' ' || type from pg_stat_progress_copy where pid = pg_backend_pid()),
            (select count(*) from mine);
    end if;
    return '';
end $$;
copy (select bloom_create('f', 10000, source => 'select name || look_at_copy(i) from names')) to stdout;
drop table f;

-- Nothing is shown where the server is told to show nothing.
set track_activities = off;
select shows('unseen');
reset track_activities;

-- Everybody may look; what they see of other sessions is in a test of its own.
create role regress_nobody;
set role regress_nobody;
select count(*) from bloom_progress where pid = pg_backend_pid();
select count(*) from bloom_get_progress() where pid = pg_backend_pid();
reset role;
drop role regress_nobody;
drop view mine;
drop table names;
