\set n random(1, 4000000)
select exists (select from users where lower(username) = lower('user' || :n));
