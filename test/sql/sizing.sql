-- Sizing by the blocked model: known values.
select items, round(100 * bloom_expected_fp_rate(items * 1e6, 131072)::numeric, 3) as percent
from unnest(array[0, 50, 100, 111.7, 129.9, 150, 200]) items;
select round(100 * (1 - exp(-7 * 100e6 / (131072 * 8192.0))) ^ 7, 3) as unblocked;
select fp_rate, storage, chunks, chunk_bits, k, bytes, round(bits_per_item::numeric, 2) as bits,
       round(expected_fp_rate::numeric, 7) as expected
from unnest(array[0.01, 0.001, 0.0001]) fp_rate, bloom_size(2e6, fp_rate);

-- The same by an independent computation: inclusion and exclusion over the d different positions
-- that k draws give, binomial loads, in numbers of 60 digits.
create function plain_rate(items float8, chunks int, k int, m numeric default 8192) returns float8 language plpgsql as $$
declare
    chance numeric[] := array[1::numeric(1000, 60)] || array_fill(0::numeric(1000, 60), array[k]);
    rate numeric(1000, 60) := 0;
    all_set numeric(1000, 60);
    ways numeric;
begin
    for draw in 1..k loop
        for d in reverse draw..0 loop
            chance[d + 1] := (chance[d + 1] * d / m + case when d > 0 then chance[d] * (m - d + 1) / m else 0 end)::numeric(1000, 60);
        end loop;
    end loop;
    for d in 1..k loop
        all_set := 0;
        ways := 1;
        for j in 0..d loop
            all_set := all_set + (-1) ^ j * ways
                * (1 - ((1 - (1 - j / m)::numeric(1000, 60) ^ k) / chunks)::numeric(1000, 60)) ^ items::numeric;
            ways := ways * (d - j) / (j + 1);
        end loop;
        rate := rate + chance[d + 1] * all_set;
    end loop;
    return rate;
end $$;
select items, chunks, k, abs(bloom_expected_fp_rate(items, chunks, k)
                             / plain_rate(items, chunks, k) - 1) < 1e-9 as equal
from (values (1e8, 131072, 7), (2e6, 2347, 7), (2e6, 3528, 10), (2e6, 4724, 13), (5e4, 128, 7),
             (3e5, 128, 7)) v (items, chunks, k);

-- Minimal: with a chunk fewer the rate is missed.
select capacity, fp_rate, bloom_expected_fp_rate(capacity, chunks) <= fp_rate as enough,
       bloom_expected_fp_rate(capacity, chunks - 1) > fp_rate as minimal
from (values (2e6, 0.01), (1e8, 0.01), (1e8, 0.001), (5e8, 0.05), (1e9, 1e-9)) v (capacity, fp_rate),
     bloom_size(capacity, fp_rate) where storage = 'table';

-- Small and odd ones.
select capacity, fp_rate, storage, chunks, chunk_bits, k, bytes
from (values (1, 0.99), (3, 0.99), (1, 1e-9), (100, 0.01), (1000, 0.01)) v (capacity, fp_rate),
     bloom_size(capacity, fp_rate);
-- No size above its rate, and none larger than it must be: few chunks, small chunks.
select capacity, fp_rate, bytes, plain_rate(capacity, chunks, k, chunk_bits) <= fp_rate as kept,
       abs(expected_fp_rate / plain_rate(capacity, chunks, k, chunk_bits) - 1) < 1e-9 as equal
from (values (5, 1e-4), (50, 1e-4), (100, 1e-3), (490, 0.2), (2530, 0.05), (1000, 0.01)) v (capacity, fp_rate),
     bloom_size(capacity, fp_rate) where storage = 'value';
-- A value ends at 256 MiB, a table at 2^31 - 1 chunks.
select storage, chunks from bloom_size(1e12);
select chunks from bloom_size(1e12, 1e-9);

-- Bad input.
select bloom_size(0);
select bloom_size(-5);
select bloom_size(1.5);
select bloom_size('NaN');
select bloom_size('Infinity');
select bloom_size(1e18);
select bloom_size(0.01, 1e8);
select bloom_size(1000, 0);
select bloom_size(1000, 1);
select bloom_size(1000, 5);
select bloom_size(1000, -0.1);
select bloom_size(1000, 'NaN');
select bloom_size(1000, 'Infinity');
select bloom_size(1000, '-Infinity');
select bloom_size(1000, 1e-300);
select bloom_expected_fp_rate(-1, 128);
select bloom_expected_fp_rate('NaN', 128);
select bloom_expected_fp_rate('Infinity', 128);
select bloom_expected_fp_rate(1000, 0);
select bloom_expected_fp_rate(1000, 128, 0);
select bloom_expected_fp_rate(1000, 128, 33);
select bloom_expected_fp_rate(1e300, 1) as full;
select bloom_expected_fp_rate(null, 1);
drop function plain_rate;
