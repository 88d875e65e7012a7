-- sliding_window_counter.lua: estimates a sliding window from two aligned ones. The previous
-- window counts by the fraction of it that the sliding window still overlaps.
-- Go twin: internal/kernel/sliding_window_counter.go
-- KEYS: one state, a string of three doubles: window index w, units c in it, units p before it.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks), the weight, and the units
-- that must stay for others.
-- Returns: of decide wait, remaining, reset, delay (times in ticks), and the state that a take
-- stores.
-- Example: limit 50, window 60 s, p = 42, c = 18, 15 s into the window: 42*45/60 + 18 = 49.5,
-- counted as 49, so weight 1 passes and nothing remains.

-- The stored state as it stands now: window index, units in it and before it, whether it exists.
local function rolled_counter(policy, key)
  local w, c, p, found = policy.index, 0, 0, false
  local state = call('GET', key)
  if state then
    local stored_w, stored_c, stored_p = stored_numbers(state, '<ddd', 24)
    if stored_w == w or stored_w == w + 1 then
      w, c, p, found = stored_w, stored_c, stored_p, true
    elseif stored_w == w - 1 then
      p, found = stored_c, true
    end
  end
  return w, c, p, found
end

local function decide(policy, key, weight, reserve)
  local limit, window, now = policy.limit, policy.window, policy.now
  local w, c, p = rolled_counter(policy, key)
  local counted, begins = c > 0, w * window
  local skew = begins > now and begins - now or 0
  local left = window - (now + skew - begins)
  local overlap = p > 0 and floor(p * left / window) or 0
  local wait, needed = 0, weight + reserve
  if weight == 0 or c + overlap + needed <= limit then
    c = c + weight
  elseif c + needed <= limit then
    wait = skew + left - ceil_div((limit - c - needed + 1) * window, p) + 1
  else
    wait = skew + left + window - ceil_div((limit - needed + 1) * window, c) + 1
  end
  local remaining = c + overlap < limit and limit - c - overlap or 0
  local reset = c > 0 and skew + window + left or p > 0 and skew + left or 0
  return wait, remaining, reset, 0, w, c, p, counted
end

-- All takes of a window expire one window after it, so that only the first sets the TTL.
local function take(policy, key, reset, w, c, p, counted)
  if counted then
    call('SET', key, pack('<ddd', w, c, p), 'KEEPTTL')
  else
    local lives = ttl(policy, reset)
    call('SET', key, pack('<ddd', w, c, p), 'PX', lives)
  end
end
