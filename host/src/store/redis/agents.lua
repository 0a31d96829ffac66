-- What the scripts on agents have in common. An index has each agent with the time at which it will be forgotten.
local function clock()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function forget_idle(index)
    redis.call('ZREMRANGEBYSCORE', index, '-inf', clock())
end

-- Keeps a key for so long at least.
local function keep_for(key, keep)
    if redis.call('PTTL', key) < keep then
        redis.call('PEXPIRE', key, keep)
    end
end

-- An agent of which something waits may be kept for longer already.
local function touch(index, labels, known, agent, keep)
    local until_then = clock() + keep
    keep_for(labels, keep)
    keep_for(known, keep)
    if until_then > tonumber(redis.call('ZSCORE', index, agent) or 0) then
        redis.call('ZADD', index, until_then, agent)
    end
    keep_for(index, keep)
end

-- Makes room in an index: the principal that has most agents in it loses an eighth of them, those without labels first,
-- and of these the oldest. Several at once, since finding them takes a while.
local function make_room(index, labels_of, known_of)
    local agents_of, largest = {}, {}
    for _, agent in ipairs(redis.call('ZRANGE', index, 0, -1)) do
        local principal = string.match(agent, '^[^/]*')
        agents_of[principal] = agents_of[principal] or {}
        table.insert(agents_of[principal], agent)
        if #agents_of[principal] > #largest then
            largest = agents_of[principal]
        end
    end
    local surplus = math.ceil(#largest / 8)
    for labelled = 0, 1 do
        for _, agent in ipairs(largest) do
            if surplus > 0 and redis.call('EXISTS', labels_of .. agent) == labelled then
                redis.call('DEL', labels_of .. agent, known_of .. agent)
                redis.call('ZREM', index, agent)
                surplus = surplus - 1
            end
        end
    end
end

