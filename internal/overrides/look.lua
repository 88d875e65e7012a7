-- Reads how many entries there are, at one instant of Redis's clock.
-- Go twin: none; internal/overrides/redis.go calls it.
-- KEYS: 1  the version
--       2  the entries
-- ARGV: none
-- Returns: { version, number of entries, seconds, microseconds }
-- Example: a version and an entry, at 6.5 s since the Unix epoch ->
-- { '5000000 1', 1, '6', '500000' }.

local time = redis.call('TIME')
return { redis.call('GET', KEYS[1]) or '', redis.call('HLEN', KEYS[2]), time[1], time[2] }
