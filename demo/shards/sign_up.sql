create sequence user_ids;
create procedure sign_up(name text, inout signed_up boolean default false) language plpgsql as $$
declare
    new_id bigint := nextval('user_ids');
begin
    -- 1. Add, and commit: postgres_fdw commits the shard first, so with the user in one transaction a
    -- crash between the two commits would leave a user whose name is denied. A deployment has one
    -- filter, or a filter a shard; here are both.
    perform bloom_add('username_filter', name);
    perform bloom_add(filter, name) from shards
    where satisfies_hash_partition('users'::regclass, (select count(*)::int from shards), number, new_id);
    commit;
    -- 2. The shard of the name decides: of several inserts, one wins.
    begin
        insert into usernames (key, id) values (lower(name), new_id);
        signed_up := true;
    exception when unique_violation then
        -- Not "on conflict do nothing": postgres_fdw runs it under repeatable read, where the loser of
        -- a race gets a serialization failure.
        signed_up := false;
    end;
    commit;
    -- 3. The user. A crash before this leaves a key without a user. The name counts as taken until a
    -- job deletes the key.
    if signed_up then
        insert into users (id, username) values (new_id, name);
    end if;
end $$;
