-- Gives entries that are not those of their version, because some were lost or added by another
-- hand, the oldest version that there is, so that a node that knows the version restores it.
--
-- KEYS[1]  the version
-- KEYS[2]  the entries
-- ARGV     none

local entries = redis.call('HLEN', KEYS[2])
if tonumber(string.match(redis.call('GET', KEYS[1]) or '', ' (%d+)$')) ~= entries then
  redis.call('SET', KEYS[1], string.format('1 %d', entries))
end
return {}
