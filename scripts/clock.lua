-- clock.lua: the one clock of a script run, first fragment of every script. All requests of a
-- batch are decided at the same instant, read from Redis itself, so that the clocks of web
-- servers never matter. Tests replace this file by a clock of their own.
-- Go twin: Clock in internal/memory/memory.go
-- KEYS: none
-- ARGV: none
-- Defines: now_us  microseconds since the Unix epoch
--          grace   milliseconds that a key outlives its state
local redis = redis
if not redis.REDIS_VERSION_NUM and redis.replicate_commands then
  -- Redis before 7 with lua-replicate-commands off refuses writes after TIME, unless a script first
  -- requests that its writes are replicated instead of itself. Redis 7 always replicates the writes
  -- and has the number.
  redis.replicate_commands()
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local grace = 1
