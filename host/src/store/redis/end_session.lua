-- Forgets the state of a session, and remembers that it has ended.
-- KEYS: its state, and the sessions that have ended, each with the time until which it is remembered.
-- ARGV: the session, for how many milliseconds, and how many sessions to remember.
local state, ended = unpack(KEYS)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('DEL', state)
redis.call('ZREMRANGEBYSCORE', ended, '-inf', now)
redis.call('ZADD', ended, now + ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYRANK', ended, 0, -ARGV[3] - 1)
if redis.call('PTTL', ended) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', ended, ARGV[2])
end
