-- clock.lua: the one clock of a script run, first fragment of every script. All requests of a
-- batch are decided at the same instant, read from Redis itself, so that the clocks of web
-- servers never matter. Tests put a clock of their own in this file's place.
-- Go twin: Clock in limiter/memory.go   KEYS: none   ARGV: none
-- Defines: now_us  microseconds since the Unix epoch
--          grace   milliseconds that a key outlives its share
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local grace = 1
