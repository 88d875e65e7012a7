-- Gives a Redis that has lost overrides those that a node knows, unless it has a version as new.
-- Go twin: none; internal/overrides/sync.go calls it.
-- KEYS: 1  the version
--       2  the entries
-- ARGV: 1  the version of the node's entries, as a number
--       2  and on: fields and values
-- Returns: the version that Redis has then.
-- Example: nothing stored, ARGV {'7000000', 'f', '0 rule'} -> '7000000 1'.

local unpack = table.unpack or unpack   -- Lua 5.1 has it alone, later versions in table
local version = redis.call('GET', KEYS[1]) or ''
local number = tonumber(string.match(version, '^%d+')) or 0
if number >= tonumber(ARGV[1]) and number < 9.005e15 then -- a larger one is foreign
  return version
end
redis.call('UNLINK', KEYS[2])
for i = 2, #ARGV, 1000 do
  redis.call('HSET', KEYS[2], unpack(ARGV, i, math.min(i + 999, #ARGV)))
end
version = string.format('%s %d', ARGV[1], (#ARGV - 1) / 2)
redis.call('SET', KEYS[1], version)
return version
