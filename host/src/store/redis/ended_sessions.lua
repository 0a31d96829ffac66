-- KEYS: the sessions that have ended.
-- Returns each session, and for how many milliseconds to remember it.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local answer = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for at = 2, #answer, 2 do
    answer[at] = answer[at] - now
end
return answer
