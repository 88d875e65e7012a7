-- Returns { version, number of entries, seconds, microseconds } at one instant of Redis's clock.
--
-- KEYS[1]  the version
-- KEYS[2]  the entries
-- ARGV     none

local time = redis.call('TIME')
return { redis.call('GET', KEYS[1]) or '', redis.call('HLEN', KEYS[2]), time[1], time[2] }
