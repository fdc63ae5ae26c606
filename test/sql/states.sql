-- Suspend and resume; what the status says.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
select bloom_create('f', 1000, ready => true);
select bloom_add('f', 'ada');
select bloom_might_contain('f', 'ada'), bloom_might_contain('f', 'bob');
select bloom_suspend('f');
select status, advice from bloom_info('f');
set client_min_messages = notice;
select bloom_might_contain('f', 'bob');
set client_min_messages = warning;
select bloom_might_contain_many('f', '{ada,bob,null}'), bloom_add('f', 'eve'),
       bloom_add_many('f', '{eve,dan}');
select bloom_suspend('f');
select bloom_resume('f');
select status, advice from bloom_info('f');
select bloom_might_contain_many('f', '{ada,bob,eve,dan}');

-- Within a transaction, and taken back with it.
begin;
select bloom_suspend('f');
select bloom_might_contain('f', 'bob');
rollback;
select bloom_might_contain('f', 'bob');

-- Another server, another timeline, another lower(): as a restored dump would be.
create function pretend(was text, becomes text) returns void language plpgsql as $$
declare
    definition text := pg_get_triggerdef(oid) from pg_trigger
                       where tgrelid = 'f'::regclass and tgname = 'bloom_filter';
begin
    execute regexp_replace(replace(definition, 'CREATE TRIGGER', 'CREATE OR REPLACE TRIGGER'),
                           was, becomes);
    alter table f enable always trigger bloom_filter;
end $$;
select pretend('system=\d+', 'system=1');
select status from bloom_info('f');
select bloom_might_contain('f', 'bob'), bloom_add('f', 'new1');
select bloom_resume('f', trust_failover => true);
select status, bloom_might_contain('f', 'bob'), bloom_might_contain('f', 'new1') from bloom_info('f');
-- Trust is of a timeline that came from this one by failovers, not of any, nor of another system.
select pretend('timeline=\d+', 'timeline=99');
select status, bloom_might_contain('f', 'bob') from bloom_info('f');
select pretend('system=\d+', 'system=1');
select status, bloom_might_contain('f', 'bob') from bloom_info('f');
-- Nor of another table: a dump that was restored beside the original, a database copied from it.
select bloom_resume('f');
select pretend('relation=\d+', 'relation=99');
select status, bloom_might_contain('f', 'bob') from bloom_info('f');
select bloom_resume('f');
select pretend('database=\d+', 'database=99');
select status, bloom_might_contain('f', 'bob') from bloom_info('f');
select bloom_resume('f', trust_failover => false);
select pretend('timeline=\d+', 'timeline=99');
select status, bloom_might_contain('f', 'bob') from bloom_info('f');
select bloom_resume('f');
select status, bloom_might_contain('f', 'bob') from bloom_info('f');

-- Another stamp alone is no matter: the canary is made again and agrees.
select pretend('stamp=[^'']*', 'stamp=UTF8 c xx 0.1');
select status, bloom_might_contain('f', 'bob'), bloom_might_contain('f', 'åsa') from bloom_info('f');
-- Another canary too: beyond ASCII nothing is denied, and nothing added.
select pretend('canary=[0-9a-f]+', 'canary=00000001');
select status, advice from bloom_info('f');
select bloom_might_contain('f', 'bob'), bloom_might_contain('f', 'ada');
\set VERBOSITY terse
select bloom_might_contain('f', 'åsa');
\set VERBOSITY default
select bloom_might_contain_many('f', '{bob,åsa}'), bloom_add('f', 'ascii');
select bloom_add('f', 'åsa');
select bloom_add_many('f', '{ascii2,åsa}');
select bloom_might_contain('f', 'ascii2');
-- Resumed, it denies ASCII names and takes all. No other name is new for sure.
select bloom_resume('f');
select bloom_add('f', 'åsa'), bloom_add('f', 'ascii3'), bloom_add_many('f', '{eva,åke}'), bloom_add_many('f', '{eva,liv}');
select bloom_might_contain_many('f', '{bob,ascii3,eva,åsa,ärla}');
select bloom_value('f') is null;
\set VERBOSITY terse
call bloom_grow('f');
\set VERBOSITY default
select bloom_suspend('f');
select status, advice from bloom_info('f');
select bloom_add('f', 'åse'), bloom_might_contain('f', 'bob');
-- There is no way back beyond ASCII, also were it as before again.
select pretend('stamp=[^'']*', 'stamp=as before');
select bloom_resume('f');
select status, advice from bloom_info('f');
select bloom_might_contain_many('f', '{bob,ascii3,åsa,ärla}');
call bloom_rebuild('f', $$select unnest('{ascii3,åsa}'::text[])$$, grace => '0', min_share => 0);
select status, bloom_might_contain_many('f', '{bob,ascii3,åsa,ärla}') from bloom_info('f');
drop table f;

-- ASCII too, as from a Turkish locale: nothing is denied, and there is no way back but a rebuild.
select bloom_create('f', 1000, ready => true);
create table as_before as select (regexp_match(pg_get_triggerdef(oid), 'canary_ascii=([0-9a-f]+)'))[1] as canary
from pg_trigger where tgrelid = 'f'::regclass and tgname = 'bloom_filter';
select pretend('canary_ascii=[0-9a-f]+', 'canary_ascii=00000001');
\set VERBOSITY terse
select status, bloom_might_contain('f', 'bob') from bloom_info('f');
\set VERBOSITY default
select bloom_add('f', 'bob');
select bloom_resume('f');
select pretend('canary_ascii=[0-9a-f]+', 'canary_ascii=' || canary) from as_before;
select status, bloom_might_contain('f', 'bob') from bloom_info('f');
select pretend('canary_ascii=[0-9a-f]+', 'canary_ascii=00000001');
select bloom_suspend('f');
select bloom_add('f', 'bob'), bloom_add('f', 'åsa');
select pretend('canary_ascii=[0-9a-f]+', 'canary_ascii=' || canary) from as_before;
select bloom_resume('f');
select status, bloom_might_contain('f', 'eve') from bloom_info('f');
-- Names that were taken beyond ASCII do not open the door for those of ASCII.
drop table f;
select bloom_create('f', 1000, ready => true);
select pretend('stamp=[^'']*', 'stamp=UTF8 c xx 0.1'), pretend('canary=[0-9a-f]+', 'canary=00000001');
select bloom_resume('f');
select pretend('canary_ascii=[0-9a-f]+', 'canary_ascii=00000001');
\set VERBOSITY terse
select bloom_add('f', 'bob');
select bloom_add('f', 'åsa');
select bloom_resume('f');
\set VERBOSITY default
drop table f, as_before;
drop function pretend;
