-- The type an item comes from makes no difference: added as one, checked as any other.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
create extension if not exists citext;
create domain username as text check (length(value) < 64);
select bloom_create('f', 1000, ready => true);
create table typed (id int, t text, v varchar(20), b char(10), n name, c citext, d username);
insert into typed values (1, 'Ada', 'Ada', 'Ada', 'Ada', 'Ada', 'Ada'),
                         (2, 'Åsa', 'Åsa', 'Åsa', 'Åsa', 'Åsa', 'Åsa');
create function all_there() returns table (id int, t bool, v bool, b bool, n bool, c bool, d bool)
language sql as $$
    select id, bloom_might_contain('f', t), bloom_might_contain('f', v),
           bloom_might_contain('f', b), bloom_might_contain('f', n),
           bloom_might_contain('f', c), bloom_might_contain('f', d)
    from typed order by id
$$;
select * from all_there();
begin; select bloom_add('f', t) from typed; select * from all_there(); rollback;
begin; select bloom_add('f', v) from typed; select * from all_there(); rollback;
begin; select bloom_add('f', b) from typed; select * from all_there(); rollback;
begin; select bloom_add('f', n) from typed; select * from all_there(); rollback;
begin; select bloom_add('f', c) from typed; select * from all_there(); rollback;
begin; select bloom_add('f', d) from typed; select * from all_there(); rollback;
begin; select bloom_add('f', 'ADA'), bloom_add('f', 'ÅSA'); select * from all_there(); rollback;
begin;
select bloom_add_many('f', array_agg(v)), bloom_add_many('f', array_agg(c::text)) from typed;
select * from all_there();
select bloom_might_contain_many('f', array_agg(v order by id)),
       bloom_might_contain_many('f', array_agg(t order by id)) from typed;
rollback;
-- The same at chunk level, and stored long or compressed.
select bool_and(bits @> t and bits @> v and bits @> b::text and bits @> n::text and bits @> d)
from typed, lateral (select 0::bit(8192) + t) x (bits);
create table long (item text);
insert into long values (repeat('Compressible', 2000)), (repeat('ÜBER', 3000));
select bloom_add('f', item) from long;
select bloom_might_contain('f', lower(item)), bloom_might_contain('f', upper(item)) from long;

-- What the server cuts is another name: 63 bytes of a name, blanks behind a varchar(n). Whoever asks for what is
-- stored finds it. Blanks at the end are no part of a char(n), and are part of other types.
create temporary table stored (n name, v varchar(8), b char(8), one "char");
insert into stored values (repeat('Long', 20), 'Blank        ', 'Blank   ', 'Q');
select bloom_add('f', n) as n, bloom_add('f', v) as v, bloom_add('f', b) as b, bloom_add('f', one) as one from stored;
select bloom_might_contain('f', repeat('long', 20)) as whole, bloom_might_contain('f', repeat('long', 20)::name) as cut;
select bloom_might_contain('f', 'blank        ') as whole, bloom_might_contain('f', 'blank        '::varchar(8)) as cut,
       bloom_might_contain('f', 'blank   ') as eight, bloom_might_contain('f', 'blank     '::char(10)) as char,
       bloom_might_contain_many('f', array['blank ', 'nobody ']::char(10)[]) as chars;
select bloom_might_contain('f', 'q') as q, bloom_might_contain('f', 'Q'::"char") as one,
       bloom_might_contain_many('f', array['Q', 'Z']::"char"[]) as ones;

-- Where a type calls names equal that the filter tells apart, whoever loads them is warned. A cast is no such type,
-- nor are values.
create table handles (handle citext);
create table queue (handle citext);
create domain handle_name as citext;
insert into handles values ('Ada');
insert into queue values ('Eva');
set client_min_messages = warning;
select bloom_create('by_handle', 1000, 0.01, 'none', 'select handle from handles');
select bloom_might_contain('by_handle', 'Ada'::citext) as as_written, bloom_might_contain('by_handle', 'ADA'::citext) as otherwise;
create trigger feed after insert on handles for each row execute function bloom_add_trigger('public.by_handle', 'handle');
insert into handles values ('Bea'), ('Cleo');
insert into handles values ('Dora');
select bloom_drain('by_handle', 'queue');
call bloom_rebuild('by_handle', 'select handle::handle_name from handles', grace => '0', min_share => 0);
call bloom_rebuild('by_handle', 'select handle::text from handles', grace => '0', min_share => 0);
call bloom_rebuild('by_handle', 'select bloom_value(''by_handle'')', grace => '0', capacity => 1000);
select bloom_create('by_lower', 1000, 0.01, 'lower', 'select handle from handles');
select bloom_might_contain('by_lower', 'ADA'::citext) as otherwise;
drop table stored, handles, queue, by_handle, by_lower;
drop domain handle_name;

-- A statement's own collation is nobody's business.
select bloom_add('f', 'COLLATED' collate "C"), bloom_might_contain('f', 'collated' collate "POSIX"),
       bloom_chunk('ADA' collate "C", 128) = bloom_chunk('ada', 128) as equal;

-- What lower() of this database says decides, for the letters that locales fight about.
select bloom_add('f', i) is not null as added, bloom_might_contain('f', lower(i)) as lowered,
       bloom_normalize(i, 'lower') = lower(i) as as_lower
from unnest(array['I', 'İ', 'ı', 'ß', 'ẞ', 'ς', 'σ', 'Σ', E'\u212a', E'\u212b', E'A\u030a',
                  E'\u00c5', 'ΟΔΟΣ', 'Ǆ', 'ﬁ']) i;
drop table f, typed, long;
drop function all_there;
drop domain username;
drop extension citext;
