-- fixed_window.lua: counts units in windows aligned to the Unix epoch.
-- Go twin: limiter/fixed_window.go
-- KEYS: one state, a string of two doubles: window index w, units c counted in it.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks), the weight, and the units
-- that must stay for others.
-- decide returns wait, remaining, reset (ticks), delay, and the state that a take stores.
-- Example: limit 10, window 2 s, a state with c = 10 at 1.5 s: weight 1 -> wait 0.5 s.

-- The stored state as it stands now: window index, units in it, whether there is one.
local function rolled_window(policy, key)
  local state = call('GET', key)
  if state then
    local w, c = stored_numbers(state, '<dd', 16)
    if w >= policy.index and w <= policy.index + 1 then
      return w, c, true
    end
  end
  return policy.index, 0, false
end

kernels[#kernels + 1] = {
  decide = function(policy, key, weight, leave)
    local w, c, found = rolled_window(policy, key)
    local wait, ends = 0, (w + 1) * policy.window - policy.now
    if weight == 0 or c + weight + leave <= policy.limit then
      c = c + weight
    else
      wait = ends
    end
    return wait, max(0, policy.limit - c), c > 0 and ends or 0, 0, w, c, found
  end,

  -- All takes of a window expire with it, so that only the first sets the TTL.
  take = function(policy, key, reset, w, c, found)
    if found then
      call('SET', key, pack('<dd', w, c), 'KEEPTTL')
    else
      call('SET', key, pack('<dd', w, c), 'PX', ttl(policy, reset))
    end
  end,

  charge = function(policy, key, weight)
    local w, c, found = rolled_window(policy, key)
    c = add_debt(c, weight, floor(MAX_CHARGE / policy.window))
    policy.kernel.take(policy, key, (w + 1) * policy.window - policy.now, w, c, found)
  end,

  -- Adds units of the current window and returns how many.
  settle = function(policy, key, index, units)
    local w, c, found = rolled_window(policy, key)
    units = min(units, policy.limit - c)
    if w ~= index or units < 1 then
      return 0
    end
    policy.kernel.take(policy, key, (w + 1) * policy.window - policy.now, w, c + units, found)
    return units
  end,

  receipt = function(w)
    return w, 0
  end,

  refund = function(policy, key, weight, taken_in)
    local w, c, found = rolled_window(policy, key)
    if found and w == taken_in then
      call('SET', key, pack('<dd', w, max(0, c - weight)), 'KEEPTTL')
    end
  end,
}
