-- Whoever uses a filter of a role that he does not trust runs no code of that role. Mallory hangs
-- functions on his tables wherever the server lets him; a superuser then calls all of the extension
-- for each of them. A trap that is sprung says so.
\set VERBOSITY terse
set client_min_messages = warning;
create role bloom_mallory;
create schema m authorization bloom_mallory;
set role bloom_mallory;
create function m.spring(trap text) returns boolean language plpgsql as $$
begin
    if current_user <> 'bloom_mallory' then raise warning '% runs with the rights of another', trap; end if;
    return true;
end $$;
create function m.number(i int) returns int language plpgsql immutable as
    'begin perform m.spring(''function of an index or a generated column''); return i; end';
create function m.fired() returns trigger language plpgsql as
    'begin perform m.spring(''trigger '' || tg_name); return coalesce(new, old); end';
create function m.make(name text, changes text) returns void language plpgsql as $$
begin
    perform bloom_create('m.' || name, 1000, source => 'values (''ada'')');
    execute replace(replace(changes, '$f', 'm.' || name), '$k', name || '_pkey');
exception when others then raise warning '% is not to be had: %', name, sqlerrm;
end $$;

-- Filters with what a filter may have, or what the server lets him add.
create table m.changes (name text, changes text);
insert into m.changes values
    ('plain', 'comment on table $f is ''$(whoami)'''),
    ('checks', 'alter table $f add check (m.spring(''check'')), add check (m.spring(''check of bits'') or bits is null)'),
    ('defaults', 'alter table $f alter chunk set default m.number(1), alter bits set default repeat(''0'', 8192 - m.number(0))::bit(8192)'),
    ('after_row', 'create trigger t after insert or update or delete on $f for each row execute function m.fired()'),
    ('after_statement', 'create trigger t after insert or update or delete or truncate on $f execute function m.fired()'),
    ('before_row', 'create trigger t before insert or update on $f for each row execute function m.fired()'),
    ('condition', 'create trigger t after update on $f for each row when (m.spring(''condition'')) execute function m.fired()'),
    ('guard_condition', 'create or replace trigger bloom_filter before update on $f for each row when (m.spring(''condition'')) execute function bloom_guard()'),
    ('guard_of_his', 'create or replace trigger bloom_filter before update or delete on $f for each row execute function m.fired()'),
    ('rule', 'create rule r as on update to $f do also select m.spring(''rule'')'),
    ('policy', 'alter table $f enable row level security, force row level security; create policy p on $f using (m.spring(''policy'')) with check (m.spring(''policy''))'),
    ('policy_off', 'create policy p on $f using (m.spring(''policy'')) with check (m.spring(''policy''))'),
    ('index', 'create index on $f (m.number(chunk))'),
    ('partial', 'create index on $f (chunk) where m.number(1) > 0'),
    ('no_key', 'alter table $f drop constraint $k; create unique index on $f (chunk) where m.number(1) > 0'),
    ('statistics', 'create statistics m.s on m.number(chunk), (m.number(chunk) + 1) from $f'),
    ('generated', 'alter table $f add g int generated always as (m.number(chunk)) stored'),
    ('missing', 'alter table $f add d boolean default m.spring(''default'')'),
    ('domain_number', 'create domain m.d as int check (m.spring(''domain'')); alter table $f alter chunk type m.d'),
    ('domain_bits', 'create domain m.b as bit(8192) check (m.spring(''domain'')); alter table $f alter bits type m.b'),
    ('other_bits', 'alter table $f alter bits type bit(8191) using substring(bits for 8191), add check (m.spring(''check'') or bits is null)'),
    ('null_bits', 'alter table $f alter bits drop not null, add check (m.number(1) > 0)'),
    ('parent', 'create table m.below () inherits ($f); alter table m.below add check (m.spring(''check''))'),
    ('child', 'create table m.above (chunk int not null, bits bit(8192) not null, check (m.spring(''check''))); alter table $f add constraint above_check check (m.spring(''check'')); alter table $f inherit m.above'),
    ('partition', 'create table m.whole (chunk int not null, bits bit(8192) not null) partition by range (m.number(chunk)); alter table m.whole attach partition $f default'),
    ('foreign_key', 'create table m.refers (chunk int references $f on update cascade on delete cascade)');
select from m.changes, m.make(name, changes) order by m.changes.ctid;
-- What is not a table, but has the trigger that the view looks for.
create view m.view as select m.number(1) as chunk, 0::bit(8192) as bits where m.spring('view');
create trigger bloom_filter instead of update or delete on m.view for each row execute function bloom_guard();
create table m.partitioned (chunk int, bits bit(8192)) partition by list (m.number(chunk));
create trigger bloom_filter after update or delete on m.partitioned for each row execute function bloom_guard();
create materialized view m.materialized as select m.number(1) as chunk, 0::bit(8192) as bits where m.spring('materialized view');
-- Made by hand, and to be registered.
create table m.hand (chunk int primary key, bits bit(8192) not null default (m.number(0))::bit(8192),
                     check (m.spring('check')));
insert into m.hand select c, 0::bit(8192) from generate_series(0, 127) c;
create policy p on m.hand using (m.spring('policy'));
create table m.hand_row (chunk int primary key, bits bit(8192) not null, check (m.spring('check')));
insert into m.hand_row table m.hand;
create trigger t before insert or update on m.hand_row for each row execute function m.fired();
-- Queues.
create domain m.name as text check (m.spring('domain'));
create type m.pair as (a text);
create type m.mood as enum ('ada', 'eve');
create function m.pair_text(m.pair) returns text language plpgsql as
    'begin perform m.spring(''cast''); return $1.a; end';
create cast (m.pair as text) with function m.pair_text(m.pair) as implicit;
create cast (m.mood as text) with inout as implicit;
create table m.queue (name text default m.number(1)::text check (m.spring('check')));
create table m.queue_domain (name m.name);
create table m.queue_pair (name m.pair);
create table m.queue_mood (name m.mood);
create table m.queue_index (name text);
create table m.queue_trigger (name text);
create table m.queue_rule (name text);
create table m.queue_policy (name text);
create table m.queue_parent (name text);
create table m.queue_child () inherits (m.queue_parent);
create view m.queue_view as select name from m.queue where m.spring('view');
create table m.queue_partitioned (name text) partition by range (name);
insert into m.queue values ('ada');
insert into m.queue_domain values ('ada');
insert into m.queue_pair values (row('ada'));
insert into m.queue_mood values ('ada');
insert into m.queue_index values ('ada');
create index on m.queue_index (m.number(length(name))) where m.number(1) > 0;
create trigger t after delete on m.queue_trigger for each row execute function m.fired();
create rule r as on delete to m.queue_rule do also select m.spring('rule');
alter table m.queue_policy enable row level security, force row level security;
create policy p on m.queue_policy using (m.spring('policy'));
reset role;

-- The traps work: this is what a superuser gets who writes to such a table by SQL.
update m.checks set bits = bits where chunk = 1;
update m.after_row set bits = bits where chunk = 1;
delete from m.queue_rule;
select from m.view;

-- Every call for each of his relations: how many went well, and how the others failed.
create table relations as
select c.oid::regclass as relation, relname from pg_class c
where relnamespace = 'm'::regnamespace and relkind in ('r', 'v', 'm', 'p') and relname !~ '^queue|changes';
create table calls (call text);
insert into calls values
    ('select bloom_register(''%s'', ''lower'', known => ''{}'')'),
    ('select count(*) from bloom_info(''%s'')'),
    ('select count(*) from bloom_info_sampled(''%s'', 1000)'),
    ('select count(*) from bloom_stats(''%s'')'),
    ('select bloom_might_contain(''%s'', ''ada'')'),
    ('select bloom_might_contain_many(''%s'', ''{ada,eve}'')'),
    ('select bloom_might_contain_any(''{%s}'', ''eve'')'),
    ('select bloom_value(''%s'') is null'),
    ('select bloom_add(''%s'', ''eve'')'),
    ('select bloom_add_many(''%s'', ''{bob,dan}'')'),
    ('select bloom_merge(''%s'', bloom_agg_chunks(''fay'', 128, ''lower''))'),
    ('select bloom_drain(''%s'', ''feed'')'),
    ('insert into users values (''gus'')'),
    ('select bloom_suspend(''%s'')'),
    ('select bloom_resume(''%s'')'),
    ('select bloom_report_false_positive(''%s'')'),
    ('select bloom_stat_reset(''%s'')');
create table feed (name text);
create table users (name text);
create table outcomes (relation text, call text, outcome text);
do $$
declare
    r record;
    c text;
begin
    for r in table relations loop
        insert into feed values ('ida');
        execute format('create trigger t after insert on users for each row
                        execute function bloom_add_trigger(%L, ''name'')', r.relation);
        for c in select call from calls loop
            begin
                execute format(c, r.relation);
                insert into outcomes values (r.relname, c, 'ok');
            exception when others then
                insert into outcomes values (r.relname, c, regexp_replace(sqlerrm, '"m\.\w+"|"\w+"|m\.\w+', '…'));
            end;
        end loop;
        drop trigger t on users;
    end loop;
end $$;
select relation, count(*) filter (where outcome = 'ok') as ok, count(*) filter (where outcome <> 'ok') as refused
from outcomes group by relation order by relation collate "C";
select outcome, count(*) from outcomes where outcome <> 'ok' group by outcome order by outcome collate "C";
select count(*) > 20 as listed, count(*) filter (where status ~ '^unusable') > 10 as unusable from bloom_filters;
select format('call bloom_rebuild(%L, ''values (''''ada''''), (''''zoe'''')'', grace => ''0'', min_share => 0)', relation)
from relations order by relname collate "C" \gexec
select format('call bloom_grow(%L)', relation) from relations order by relname collate "C" \gexec
-- What he owns is his still, and nothing is left of the superuser in his schema.
select relname from pg_class
where relnamespace = 'm'::regnamespace and relowner <> 'bloom_mallory'::regrole;

-- His queues.
select bloom_create('f', 1000, ready => true);
select format('select %L as queue, bloom_drain(''f'', %L)', relname, oid::regclass) from pg_class
where relnamespace = 'm'::regnamespace and relname ~ '^queue' and relkind in ('r', 'v', 'p')
order by relname collate "C" \gexec

-- The advice on his filters may be run too: no alter table that makes the server run his checks.
select filter, status, advice from bloom_filters
where filter::text ~ '_bits|guard_condition' order by filter::text collate "C";
select advice from bloom_filters
where advice ~ '^alter table' and filter::text ~ '_bits|guard_condition' order by filter::text collate "C" \gexec
\set VERBOSITY default
select bloom_might_contain('m.null_bits', 'ada');
\set VERBOSITY terse
-- He may run it himself.
set role bloom_mallory;
alter table m.null_bits alter bits set not null;
reset role;
select bloom_might_contain('m.null_bits', 'ada');

-- The new table is the one that was made, also if his schema gets another name at that moment, and he
-- has a table of the name in it. An event trigger does here what another session would.
set role bloom_mallory;
create table m.new_filter (chunk int not null, bits bit(8192) not null);
reset role;
create function rename_schema() returns event_trigger language plpgsql as $$
begin
    if to_regnamespace('m_renamed') is null then
        alter schema m rename to m_renamed;
        create schema m;
    end if;
end $$;
create event trigger rename_schema on ddl_command_start when tag in ('CREATE TABLE')
execute function rename_schema();
select bloom_create('m.new_filter', 1000, source => 'values (''ada'')');
select count(*) from m.new_filter;
drop event trigger rename_schema;
drop function rename_schema;

drop schema m cascade;
drop table f, feed, users, relations, calls, outcomes;
drop role bloom_mallory;
