-- What a sign-up on Citus takes, beside the filter. Run on the coordinator: Citus makes the functions
-- on the workers as well. docs/sharding.md explains them, and test/citus.sh runs them.

-- Whether a name is taken. Only after a "maybe" one shard is asked: the one that decides.
create function username_taken(name text) returns boolean language plpgsql stable strict as $$
declare
    key text := lower(name);
begin
    if bloom_might_contain('username_filter', name) = false then
        return false;
    end if;
    return exists (select 1 from usernames where username = key);
end $$;

-- On a worker: the names of all shards of a table that are here, as one filter value, and the numbers
-- of these shards. Raises an error if there is none.
create function bloom_local(
    source text, item text, chunks int, out shards bigint[], out filter bloomfilter)
language plpgsql stable as $$
declare
    names text;
begin
    select array_agg(shardid),
        string_agg(format('select %I from %s', item, shard_name(logicalrelid, shardid)), ' union all ')
    into shards, names
    from pg_dist_shard
        join pg_dist_placement using (shardid)
        join pg_dist_local_group using (groupid)
    where logicalrelid = source::regclass;
    if shards is null then
        raise exception 'no shard of % is on this node', source;
    end if;
    -- the null gives an empty filter where no shard has a name
    execute format('select bloom_agg_chunks(item, $1, ''lower'') '
        'from (select null::text as item union all %s) names', names)
    into filter using chunks;
end $$;

-- On the coordinator: one value a worker, as the source of bloom_rebuild. Raises an error if a worker
-- does not answer, or if a shard was read on none: one that moved meanwhile, or is elsewhere.
create function bloom_workers(source text, item text, chunks int) returns setof bloomfilter
language plpgsql stable as $$
declare
    answer record;
    seen bigint[] := '{}';
begin
    for answer in
        select * from run_command_on_workers(format(
            'select shards::text || '' '' || encode(filter::bytea, ''base64'') '
            'from bloom_local(%L, %L, %s)', source, item, chunks))
    loop
        if not answer.success then
            raise exception 'worker %:%: %', answer.nodename, answer.nodeport, answer.result;
        end if;
        seen := seen || split_part(answer.result, ' ', 1)::bigint[];
        return next decode(split_part(answer.result, ' ', 2), 'base64')::bloomfilter;
    end loop;
    if exists (select from pg_dist_shard
               where logicalrelid = source::regclass and shardid <> all (seen)) then
        raise exception 'a shard of % was read on no worker', source
            using hint = 'Run the rebuild again while no shard moves.';
    end if;
end $$;
