-- take_alone.lua: decides one take of one check, which is what a quiet node sends, or one to a slot
-- of a Cluster. takes.lua does the same for batches.
-- Made as the scripts of takes.lua, without a function: commands answer errors, which the script
-- passes on by itself (scripts/takes.go).
-- Go twin: writeAlone in internal/redis/message.go
-- KEYS: the state.
-- ARGV: one string of little-endian doubles, all those of batch.lua: limit, window, tick of the
--       policy, the weight, the units that must stay for others; capacity, max_delay, the largest
--       debt of the policy; then the numbers that its kernel reads by itself.
-- Returns: as batch.lua.
-- Example: ARGV {10, 2000000, 1, 1, 0, 10, NO_QUEUE, 2^52} as doubles, in the script of
--       fixed_window: a take of weight 1 from 10 per 2 s, at the beginning of a window -> now, 0,
--       9, 2000000, 0 as doubles.
local message, key = ARGV[1], KEYS[1]
-- The prelude and the kernels.
if #message == 8 then   -- Redis only gets to know the script
  return pack('<d', now_us)
end
local policy_limit, policy_window, policy_tick, weight, reserve = unpack_state('<ddddd', message)
local policy_capacity, policy_max_delay, policy_max_debt =   -- only bucket
  unpack_state('<ddd', message, 41)   -- only bucket
local policy_offset = now_us % policy_tick
local policy_now = (now_us - policy_offset) / policy_tick
local policy_index = (policy_now - policy_now % policy_window) / policy_window
local policy_volume = policy_capacity * policy_window   -- only bucket
local policy_full = ceil_div(policy_volume, policy_limit)   -- only bucket
local policy_starts, policy_period, policy_shortest =   -- only calendar
  read_periods(message, 65, policy_now)   -- only calendar
local wait, remaining, reset, delay, x, y, z, kept = decide(policy, key, weight, reserve)
if wait == 0 then
  take(policy, key, reset, x, y, z, kept)
end
if policy_tick ~= 1 then
  wait = wait > 0 and wait * policy_tick - policy_offset or wait
  reset = reset > 0 and reset * policy_tick - policy_offset or reset
  delay = delay > 0 and delay * policy_tick - policy_offset or delay
end
return pack('<ddddd', now_us, wait, remaining, reset, delay)
