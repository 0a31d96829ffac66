-- Takes one request out of a bucket, which is stored as the time at which it will be full again.
-- KEYS: the bucket. ARGV: how long it takes to refill one request, and the whole bucket, in microseconds.
-- Returns how many microseconds to wait; 0 if the request was taken.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full_at = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now) + ARGV[1]
local wait = full_at - now - ARGV[2]
if wait > 0 then
    return wait
end
-- Without a format, Lua would round the number.
redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', math.ceil((full_at - now) / 1000))
return 0
