-- counter.lua: a plain sliding window counter that decides one request of one key per EVALSHA.
-- Go twin: none; what it costs is compared, and not what it decides.
-- KEYS: the client's state, a string of three doubles: window index, units in it, units before it.
-- ARGV: limit, window in microseconds.
-- Returns: allowed (1 or 0), units left, microseconds until the quota is full again.
-- Example: KEYS {k}, ARGV {10, 2000000} at the start of a window -> 1, 9, 4000000.
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local index = math.floor(now / window)
local count, before = 0, 0
local state = redis.call('GET', KEYS[1])
if state then
  local w, c, p = struct.unpack('<ddd', state)
  if w == index then
    count, before = c, p
  elseif w == index - 1 then
    before = c
  end
end
local left = (index + 1) * window - now
local used = count + math.floor(before * left / window)
if used >= limit then
  return {0, 0, left + window}
end
local next_state = struct.pack('<ddd', index, count + 1, before)
redis.call('SET', KEYS[1], next_state, 'PX', math.ceil((left + window) / 1000))
return {1, limit - used - 1, left + window}
