\set n random(1, 1000000000000)
update article.filter f set bits = f.bits | u.mask from article.username_bits('add-' || :client_id || '-' || :n) u where f.chunk = u.chunk;
