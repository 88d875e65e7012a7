-- Reads the marker by which nodes notice that Redis has lost its data. Where there is none, it is
-- written; the node says when it is to be written again, so that it does not expire.
-- Go twin: none; internal/overrides/marker.go calls it.
-- KEYS: 1  the marker
-- ARGV: 1  a value for a new marker
--       2  its TTL in milliseconds
--       3  1 to write it again, 0 not to
-- Returns: { the marker, the version of the server; empty where it is not known to scripts }
-- Example: nothing stored, ARGV {'a1', 604800000, 0} -> { 'a1', '7.4.1' }.

local marker = redis.call('GET', KEYS[1])
if not marker or ARGV[3] == '1' then
  marker = marker or ARGV[1]
  redis.call('SET', KEYS[1], marker, 'PX', ARGV[2])
end
local version = redis.REDIS_VERSION or ''
if redis.VALKEY_VERSION then
  version = 'valkey ' .. redis.VALKEY_VERSION
end
return { marker, version }
