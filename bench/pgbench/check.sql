\set n random(1, 2000000)
select bloom_might_contain('f', 'user' || :n);
