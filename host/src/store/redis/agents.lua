-- What the scripts on agents have in common. An index has each agent with the time at which it will be forgotten.
local function clock()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function forget_idle(index)
    redis.call('ZREMRANGEBYSCORE', index, '-inf', clock())
end

local function touch(index, labels, known, agent, keep)
    redis.call('PEXPIRE', labels, keep)
    redis.call('PEXPIRE', known, keep)
    redis.call('ZADD', index, clock() + keep, agent)
    if redis.call('PTTL', index) < keep then
        redis.call('PEXPIRE', index, keep)
    end
end

