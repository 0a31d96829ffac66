-- KEYS: the indexes. ARGV: what the keys of labels and of known values begin with.
-- Returns for each agent its name, its labels and the number of values that it knows.
local answer = {}
for _, index in ipairs(KEYS) do
    forget_idle(index)
    for _, agent in ipairs(redis.call('ZRANGE', index, 0, -1)) do
        local labels = redis.call('ZRANGE', ARGV[1] .. agent, 0, -1)
        table.insert(answer, {agent, labels, redis.call('ZCARD', ARGV[2] .. agent)})
    end
end
return answer
