-- 1. without a filter: every check asks every shard
create function taken_without_filter(name text) returns boolean language plpgsql stable strict as $$
declare
    key text := lower(name);
begin
    return exists (select 1 from users where lower(username) = key);
end $$;

-- 2. with one filter: only a maybe asks, and asks every shard
create function taken(name text) returns boolean language plpgsql stable strict as $$
declare
    key text := lower(name);
begin
    if bloom_might_contain('username_filter', name) = false then
        return false;
    end if;
    return exists (select 1 from users where lower(username) = key);
end $$;

-- 3. with a filter a shard: a maybe asks only the shards that it comes from
create function taken_by_shard(name text) returns boolean language plpgsql stable strict as $$
declare
    key text := lower(name);
    maybe regclass[] := bloom_might_contain_any(array(select filter from shards), name);
    shard regclass;
    taken boolean;
begin
    for shard in select users from shards where filter = any (maybe) loop
        execute format('select true from %s where lower(username) = $1 limit 1', shard)
            into taken using key;
        if taken then
            return true;
        end if;
    end loop;
    return false;
end $$;

-- 4. by key, without a filter: usernames is sharded by the name, so one shard knows
create function taken_by_key_without_filter(name text) returns boolean language plpgsql stable strict as $$
declare
    wanted text := lower(name);
begin
    return exists (select 1 from usernames where key = wanted);
end $$;

-- 5. by key, with one filter: only a maybe asks, and asks one shard
create function taken_by_key(name text) returns boolean language plpgsql stable strict as $$
declare
    wanted text := lower(name);
begin
    if bloom_might_contain('username_filter', name) = false then
        return false;
    end if;
    return exists (select 1 from usernames where key = wanted);
end $$;
