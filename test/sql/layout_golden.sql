-- Bit layout, version 1: chunk and positions of some 200 names against plain SQL over md5().
create temp table golden as
select row_number() over () as id, name from (
    select 'user' || i from generate_series(1, 120) i
    union all select chr(64 + i) from generate_series(1, 26) i
    union all select repeat('Ab', i * 50) from generate_series(1, 20) i
    union all select unnest(array[
        '', ' ', '0', '_', 'ada', 'Ada', 'ADA', 'grace hopper', E'tab\there', E'new\nline',
        'Åsa', 'ÉMILE', 'ßtraße', 'Σίσυφος', 'ΣΊΣΥΦΟΣ', 'İstanbul', 'Iıİi', 'Дмитрий', 'ДМИТРИЙ',
        '中文名字', 'ひらがな', 'カタカナ', '한국어', 'עברית', 'العربية', 'हिन्दी', '🐘', '👩‍💻', '🏳️‍🌈',
        E'e\u0301', E'\u00e9', E'A\u030a', E'\u212a', E'\ufb01', E'\u200d', E'\U0010ffff',
        repeat('x', 65536), repeat('Ünï', 9000), 'o''brien', 'a\b', '%', 'NULL', '1e8'])
) n (name);

-- An independent way: bits 1-17 and 109-128 as one number of 37 bits, exact numeric arithmetic.
create function plain_chunk(name text, n bigint) returns bigint language sql immutable
return (select floor((substring(h from 1 for 17) || substring(h from 109 for 20))::bit(37)::bigint
                     * n::numeric / 137438953472)::bigint
        from (select ('x' || md5(lower(name)))::bit(128) h) md5);
create function plain_positions(name text) returns int[] language sql immutable
return (select array(select substring(h from 18 + 13 * i for 13)::int
                     from generate_series(0, 6) i)
        from (select ('x' || md5(lower(name)))::bit(128) h) md5);

select count(*) as names, count(distinct name) as different from golden;
select n, count(*) filter (where bloom_chunk(name, n) = plain_chunk(name, n)) as equal,
       count(*) filter (where (username_bits(name, n)).chunk = plain_chunk(name, n)) as equal2
from golden, unnest(array[1, 3, 1000, 131072, 262144, 2147483647]) n group by n order by n;
select count(*) as names,
       count(*) filter (where array(select distinct p from unnest(plain_positions(name)) p
                                    order by p)
                            = array(select p from generate_series(0, 8191) p
                                    where get_bit(mask, p) = 1)) as equal
from golden, username_bits(name);

-- Known values, independent of any code here.
select bloom_chunk('ada', 131072), plain_positions('ada');

-- A mask never depends on the number of chunks.
select count(*) as different
from golden, username_bits(name) u, unnest(array[1, 3, 1000, 2147483647]) n,
     username_bits(name, n) v
where u.mask <> v.mask;

-- Fold: chunk of n/d is chunk of n divided by d. Grow: chunk c becomes 2c or 2c + 1.
select count(*) filter (where bloom_chunk(name, n * d) / d <> bloom_chunk(name, n)) as unfolded
from golden, unnest(array[1, 3, 1000, 131072]) n, unnest(array[2, 3, 5, 1000]) d;
select count(*) filter (where bloom_chunk(name, 2 * n) not in
                              (2 * bloom_chunk(name, n), 2 * bloom_chunk(name, n) + 1)) as ungrown
from golden, unnest(array[1, 3, 1000, 131072, 1000000000]) n;

-- The top quarter of chunks and of positions is hit as often as any other: of 40,000 names
-- 10,000, give or take five standard deviations (5 * sqrt(7500) = 433); of 280,000 positions
-- 70,000 +- 1146.
select abs(count(*) filter (where chunk >= (1048583 * 3) / 4) - 10000) < 433 as chunks_even,
       max(chunk) > 1048583 - 200 and min(chunk) < 200 as both_ends
from generate_series(1, 40000) i, bloom_chunk('even' || i, 1048583) chunk;
select abs(sum(bit_count(substring(mask from 6145 for 2048))) - 70000) < 1146 as positions_even
from generate_series(1, 40000) i, username_bits('even' || i, 1048583);

drop function plain_chunk, plain_positions;
