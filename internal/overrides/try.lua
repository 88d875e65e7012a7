-- Finds out whether Redis takes changes of overrides, and changes none: that it takes writes
-- now, and that the user may run the commands of a change.
-- Go twin: none; internal/overrides/node_only.go calls it.
-- KEYS: 1  a key that nothing else uses
--       2  the entries
-- ARGV: none
-- Returns: {}, or the error of what is refused.
-- Example: nothing stored -> {}, and the first key lives for a second.

redis.call('SET', KEYS[1], '', 'PX', 1000)
redis.call('HDEL', KEYS[2], '') -- no entry has this field
local reply = redis.pcall('HSET', KEYS[1], 'field', '') -- refused by the type once it is permitted
if reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true) then
  return reply
end
return {}
