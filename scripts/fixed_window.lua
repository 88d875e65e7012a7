-- fixed_window.lua: counts units in windows aligned to the Unix epoch.
-- Go twin: internal/kernel/fixed_window.go
-- KEYS: one state, a string of two doubles: window index w, units c counted in it.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks), the weight, and the units
-- that must stay for others.
-- Returns: of decide wait, remaining, reset, delay (times in ticks), and the state that a take
-- stores.
-- Example: limit 10, window 2 s, a state with c = 10 at 1.5 s: weight 1 -> wait 0.5 s.

-- The stored state as it stands now: window index, units in it, whether there is one.
local function rolled_window(policy, key)
  local w, c, found = policy.index, 0, false
  local state = call('GET', key)
  if state then
    local stored_w, stored_c = stored_numbers(state, '<dd', 16)
    if stored_w >= w and stored_w <= w + 1 then
      w, c, found = stored_w, stored_c, true
    end
  end
  return w, c, found
end

local function decide(policy, key, weight, reserve)
  local limit = policy.limit
  local w, c, found = rolled_window(policy, key)
  local wait, ends = 0, (w + 1) * policy.window - policy.now
  if weight == 0 or c + weight + reserve <= limit then
    c = c + weight
  else
    wait = ends
  end
  local remaining = c < limit and limit - c or 0
  local reset = c > 0 and ends or 0
  return wait, remaining, reset, 0, w, c, found
end

-- All takes of a window expire with it, so that only the first sets the TTL.
local function take(policy, key, reset, w, c, found)
  if found then
    call('SET', key, pack('<dd', w, c), 'KEEPTTL')
  else
    local lives = ttl(policy, reset)
    call('SET', key, pack('<dd', w, c), 'PX', lives)
  end
end
