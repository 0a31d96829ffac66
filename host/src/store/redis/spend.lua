-- Uses up something that may be used once.
-- KEYS: it, the epoch, and the number of writes of the replica.
-- ARGV: an epoch in case there is none, and for how many milliseconds to keep it, the epoch and the number.
-- Returns 1 if it was not used before, the epoch, and the number.
local spent, key, writes = unpack(KEYS)
local drawn, keep, keep_epoch, keep_number = unpack(ARGV)
local is_first = redis.call('SET', spent, '', 'NX', 'PX', keep) and 1 or 0
return {is_first, epoch(key, drawn, keep_epoch), count_write(writes, keep_number)}
