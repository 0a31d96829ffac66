-- Counts a call for each key, in a time that begins with the first call, or only says what that would give.
-- KEYS: one for each limit. ARGV: 'count' or 'foresee', and the length of each time in milliseconds.
-- Returns for each key the number of calls, and in how many milliseconds its time ends.
local answer = {}
for at, key in ipairs(KEYS) do
    local calls
    if ARGV[1] == 'count' then
        calls = redis.call('INCR', key)
    else
        calls = tonumber(redis.call('GET', key) or 0) + 1
    end
    local left = redis.call('PTTL', key)
    if left < 0 then
        left = tonumber(ARGV[at + 1])
        redis.call('PEXPIRE', key, left)
    end
    answer[2 * at - 1] = calls
    answer[2 * at] = left
end
return answer
