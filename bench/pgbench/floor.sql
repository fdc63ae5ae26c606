\set n random(1, 2000000)
select 'user' || :n;
