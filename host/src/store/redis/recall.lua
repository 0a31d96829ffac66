-- Returns what an agent has seen, and notes that it is not idle, unless it is forgotten or only looked at.
-- KEYS: its index, its labels and the values that it knows.
-- ARGV: the agent, for how many milliseconds to keep it (empty if it is only looked at), and what to return: 'nothing',
-- 'labels' or 'all'.
-- Returns the labels, and the values in one string.
local index, labels, known = unpack(KEYS)
if ARGV[2] ~= '' and redis.call('EXISTS', labels, known) > 0 then
    touch(index, labels, known, ARGV[1], tonumber(ARGV[2]))
end
if ARGV[3] == 'nothing' then
    return {{}, ''}
end
local values = ARGV[3] == 'all' and table.concat(redis.call('ZRANGE', known, 0, -1)) or ''
return {redis.call('ZRANGE', labels, 0, -1), values}
