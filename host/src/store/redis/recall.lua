-- Returns what an agent has seen, and notes that it is not idle, unless it is forgotten or only looked at.
-- KEYS: its index, its labels, the values that it knows, and the epoch.
-- ARGV: the agent, for how many milliseconds to keep it (empty if it is only looked at), what to return ('nothing',
-- 'labels' or 'all'), an epoch in case there is none, and for how many milliseconds to keep that.
-- Returns the labels, the values in one string, and the epoch ('' if there is none).
local index, labels, known, key = unpack(KEYS)
local now
if ARGV[2] == '' then
    now = redis.call('GET', key) or ''
else
    now = epoch(key, ARGV[4], ARGV[5])
end
if ARGV[2] ~= '' and redis.call('EXISTS', labels, known) > 0 then
    touch(index, labels, known, ARGV[1], tonumber(ARGV[2]))
end
if ARGV[3] == 'nothing' then
    return {{}, '', now}
end
local values = ARGV[3] == 'all' and table.concat(redis.call('ZRANGE', known, 0, -1)) or ''
return {redis.call('ZRANGE', labels, 0, -1), values, now}
