-- Operators and functions over single chunks: nulls, lengths, arguments left alone.
create temp table chunks (chunk int primary key, bits bit(8192) not null);
insert into chunks values (bloom_chunk('ada', 128), 0::bit(8192) + 'ada');
select bit_count(bits), bits @> 'ada' as ada, bits @> 'bob' as bob, 'ADA' <@ bits as commuted
from chunks;

-- + gives a new chunk and leaves the stored one, also inline in a page, as it is.
select bit_count(bits + 'bob'), bit_count(bits) from chunks;
select bit_count(bits) from chunks;
select bit_count(bits + 'bob' + 'eve' + 'ada') from chunks;

-- A null item answers null and adds nothing; a null chunk is a missing filter, never an answer.
select bits @> null as contains, null <@ bits as contained, bit_count(bits + null) from chunks;
select null::bit(8192) @> 'ada';
select 'ada' <@ null::bit(8192);
select null::bit(8192) + 'ada';
select null::bit(8192) @> null;
select username_bits(null), bloom_chunk(null, 128);
select bloom_chunk('ada', null);
select username_bits('ada', null);

-- Anything but 8,192 bits is refused.
select b'1010' @> 'ada';
select 'ada' <@ b''::bit varying::bit;
select 0::bit(8191) + 'ada';
select 0::bit(16384) @> 'ada';

-- So is a number of chunks below one.
select bloom_chunk('ada', 0);
select username_bits('ada', -1);
select bloom_chunk('ada', 1), bloom_chunk('ada', 2147483647);

-- The planner knows the commutator, and has an estimate.
select oprname, oprcom::regoperator, oprrest, oprjoin
from pg_operator
where oprcode in ('bloom_bits_contain'::regproc, 'bloom_bits_contained'::regproc)
order by oprname;
