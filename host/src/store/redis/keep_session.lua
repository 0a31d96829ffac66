-- Keeps the state of a session, unless it has ended.
-- KEYS: its state, and the sessions that have ended.
-- ARGV: the mark of its end, the state, and for how many milliseconds.
local time = redis.call('TIME')
local ended = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not ended or tonumber(ended) <= time[1] * 1000 + time[2] / 1000 then
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
