-- Forgets what the agents of a principal have seen, or those of all.
-- KEYS: the indexes. ARGV: what the keys of labels and of known values begin with, and the principal, or '' for all.
-- Returns how many agents there were.
local forgotten = 0
local principal = ARGV[3]
for _, index in ipairs(KEYS) do
    forget_idle(index)
    for _, agent in ipairs(redis.call('ZRANGE', index, 0, -1)) do
        local part = principal .. '/'
        if principal == '' or agent == principal or string.sub(agent, 1, #part) == part then
            redis.call('DEL', ARGV[1] .. agent, ARGV[2] .. agent)
            redis.call('ZREM', index, agent)
            forgotten = forgotten + 1
        end
    end
end
return forgotten
