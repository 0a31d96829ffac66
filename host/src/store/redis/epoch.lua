-- The epoch of the store is a random value that is written once. If it is another one, the store was emptied or replaced.
local function epoch(key, drawn, keep)
    redis.call('SET', key, drawn, 'NX', 'PX', keep)
    return redis.call('GET', key)
end

-- Counts a write of a replica, so that it notices if the store loses writes.
local function count_write(writes, keep)
    local number = redis.call('INCR', writes)
    redis.call('PEXPIRE', writes, keep)
    return number
end

