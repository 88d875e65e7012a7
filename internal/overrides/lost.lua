-- Gives entries that are not those of their version, because some were lost or added by another
-- hand, the oldest version that there is, so that a node that knows the version restores it.
-- Go twin: none; internal/overrides/sync.go calls it.
-- KEYS: 1  the version
--       2  the entries
-- ARGV: none
-- Returns: {}
-- Example: the version '5000000 2' of one entry becomes '1 1'.

local entries = redis.call('HLEN', KEYS[2])
if tonumber(string.match(redis.call('GET', KEYS[1]) or '', ' (%d+)$')) ~= entries then
  redis.call('SET', KEYS[1], string.format('1 %d', entries))
end
return {}
