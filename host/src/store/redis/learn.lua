-- Adds what an agent has learned; the values that it used least recently are forgotten first.
-- KEYS: its index, its labels, the values that it knows, and the number of writes of the replica.
-- ARGV: the agent, for how many milliseconds to keep it, how many agents the index may have (0 for any number), how many
-- values an agent may know, a label with which it learns no values (or ''), the values in one string, for how many
-- milliseconds to keep the number, and the labels.
-- Returns the number.
local index, labels, known, writes = unpack(KEYS)
local agent, keep, most_agents, most_known, written, values, keep_number = unpack(ARGV, 1, 7)
forget_idle(index)
if tonumber(most_agents) > 0 and not redis.call('ZSCORE', index, agent) then
    if redis.call('ZCARD', index) >= tonumber(most_agents) then
        make_room(index, string.sub(labels, 1, -#agent - 1), string.sub(known, 1, -#agent - 1))
    end
end
if written ~= '' and redis.call('ZSCORE', labels, written) then
    values = ''
end
for at = 8, #ARGV do
    redis.call('ZADD', labels, 'NX', redis.call('ZCARD', labels), ARGV[at])
end
local last = tonumber(redis.call('ZRANGE', known, -1, -1, 'WITHSCORES')[2] or 0)
for at = 1, #values, 16 do
    last = last + 1
    redis.call('ZADD', known, last, string.sub(values, at, at + 15))
end
redis.call('ZREMRANGEBYRANK', known, 0, -most_known - 1)
touch(index, labels, known, agent, tonumber(keep))
return count_write(writes, keep_number)
