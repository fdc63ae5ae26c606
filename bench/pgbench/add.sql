\set n random(1, 1000000000000)
select bloom_add('f_add', 'add-' || :client_id || '-' || :n);
