-- The published article, in its order: first the textbook filter of 16 bits in plain SQL.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
create function textbook_positions(item text) returns int[] language sql immutable
return array(select ('x' || right(md5(i || ':' || item), 1))::bit(4)::int  -- mod 16
             from generate_series(0, 2) i);
select item, textbook_positions(item) from unnest('{ada,grace,alan,bjarne}'::text[]) item;

with filter as (
    select array_agg(distinct p) bits
    from unnest('{ada,grace}'::text[]) item, unnest(textbook_positions(item)) p)
select item, textbook_positions(item) <@ bits as maybe, item = any('{ada,grace}') as there
from filter, unnest('{ada,grace,alan,bjarne}'::text[]) item;

-- Then the blocked one: its table, its PL/pgSQL function beside ours.
create table username_filter (chunk int primary key, bits bit(8192) not null);
insert into username_filter select c, 0::bit(8192) from generate_series(0, 131071) c;

create function username_bits(name text, out chunk int, out mask bit(8192))
language plpgsql immutable as $$
declare
    h bit(128) := ('x' || md5(lower(name)))::bit(128);
begin
    chunk := substring(h from 1 for 17)::int;
    mask := 0::bit(8192);
    for i in 0..6 loop
        mask := set_bit(mask, substring(h from 18 + 13 * i for 13)::int, 1);
    end loop;
end $$;

-- The article's function wins a call with one argument; ours has two.
select count(*) as names,
       count(*) filter (where a.chunk = o.chunk and a.mask = o.mask) as equal
from (select 'user' || i from generate_series(1, 2000) i
      union all select '' union all select 'Grace Hopper' union all select repeat('Long', 3000)
      union all select 'ÅSA' union all select 'Σίσυφος' union all select '🐘') n (name),
     username_bits(name) a, username_bits(name, 131072) o;
select name, chunk,
       array(select p from generate_series(0, 8191) p where get_bit(mask, p) = 1) as bits
from unnest('{ada,Ada}'::text[]) name, username_bits(name);

-- Add: OR. Check: AND. Both ways.
update username_filter f set bits = f.bits | u.mask
from username_bits('ada') u where f.chunk = u.chunk;
update username_filter f set bits = bits + 'Grace' where chunk = bloom_chunk('Grace', 131072);
select name, (f.bits & u.mask) = u.mask as article, f.bits @> name as ours,
       name <@ f.bits as commuted
from unnest('{ada,ADA,grace,alan}'::text[]) name, username_bits(name) u, username_filter f
where f.chunk = u.chunk;

-- The rate, read from the bits.
create table users (username text);
insert into users select 'member' || i from generate_series(1, 20000) i;
select abs(avg((bit_count(bits) / 8192.0::float8) ^ 7) / bloom_fp_rate(bits) - 1) < 1e-9 as equal
from username_filter;

-- The rebuild: bit_or over masks, ours without a kilobyte a row; with more chunks, too.
create table rebuilt as
select c as chunk, coalesce(b.bits, 0::bit(8192))::bit(8192) as bits
from generate_series(0, 255) c
     left join (select bloom_chunk(username, 256) as chunk, bloom_bits_agg(username) as bits
                from users group by 1) b on b.chunk = c;
select count(*) as chunks, count(*) filter (where r.bits = m.bits) as equal
from rebuilt r
     join (select chunk, bit_or(mask) as bits
           from users, username_bits(username, 256) group by 1) m using (chunk);
select round(avg((bit_count(bits) / 8192.0) ^ 7)::numeric, 15)
     = round(bloom_fp_rate(bits)::numeric, 15) as equal
from rebuilt;

-- bloom_register takes the table over, bits and all; the article's statements go on working.
select bloom_register('username_filter', 'lower', 1e8, known => '{ada,Grace}');
select name, bloom_might_contain('username_filter', name)
from unnest('{ada,Ada,grace,alan,bjarne}'::text[]) name;
update username_filter f set bits = f.bits | u.mask
from username_bits('alan') u where f.chunk = u.chunk;
select bloom_might_contain('username_filter', 'alan'), bloom_add('username_filter', 'alan'),
       bloom_add('username_filter', 'bjarne');
select (f.bits & u.mask) = u.mask as bjarne
from username_bits('bjarne') u join username_filter f using (chunk);

-- Without its function every statement goes on with ours.
drop function username_bits(text);
select name, chunk from unnest('{ada,Ada}'::text[]) name, username_bits(name);
update username_filter f set bits = f.bits | u.mask
from username_bits('edsger') u where f.chunk = u.chunk;
select name, (f.bits & u.mask) = u.mask as maybe, bloom_might_contain('username_filter', name)
from unnest('{ada,grace,alan,bjarne,edsger,donald}'::text[]) name,
     username_bits(name) u join username_filter f using (chunk);

drop table username_filter, users, rebuilt;
drop function textbook_positions;
