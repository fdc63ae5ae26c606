\set n random(1, 2000000)
select (f.bits & u.mask) = u.mask from article.username_bits('user' || :n) u, article.filter f where f.chunk = u.chunk;
