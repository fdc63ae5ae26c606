-- Stands in for the function of the extension where that has none of this name.
create function bloom_might_contain_any(filters regclass[], item text) returns regclass[]
language sql stable return
    array(select filter from unnest(filters) filter where bloom_might_contain(filter, item) is not false);
