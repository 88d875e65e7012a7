-- sliding_window_counter.lua: estimates a sliding window from two aligned ones. The previous
-- window counts by the fraction of it that the sliding window still overlaps.
-- Go twin: limiter/sliding_window_counter.go
-- KEYS: one state, a string of three doubles: window index w, units c in it, units p before it.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks), the weight, and the units
-- that must stay for others.
-- decide returns wait, remaining, reset (ticks), delay, and the state that a take stores.
-- Example: limit 50, window 60 s, p = 42, c = 18, 15 s into the window: 42*45/60 + 18 = 49.5,
-- counted as 49, so weight 1 passes and nothing remains.

-- The stored state as it stands now: window index, units in it and before it, whether it exists.
local function rolled_counter(policy, key)
  local index = policy.index
  local state = call('GET', key)
  if state then
    local w, c, p = stored_numbers(state, '<ddd', 24)
    if w == index or w == index + 1 then
      return w, c, p, true
    elseif w == index - 1 then
      return index, 0, c, true
    end
  end
  return index, 0, 0, false
end

kernels[#kernels + 1] = {
  decide = function(policy, key, weight, leave)
    local limit, window, now = policy.limit, policy.window, policy.now
    local w, c, p = rolled_counter(policy, key)
    local counted = c > 0
    local skew = max(0, w * window - now)
    local left = window - (now + skew - w * window)
    local overlap = p > 0 and floor(p * left / window) or 0
    local wait, needed = 0, weight + leave
    if weight == 0 or c + overlap + needed <= limit then
      c = c + weight
    elseif c + needed <= limit then
      wait = skew + left - ceil_div((limit - c - needed + 1) * window, p) + 1
    else
      wait = skew + left + window - ceil_div((limit - needed + 1) * window, c) + 1
    end
    local reset = c > 0 and skew + window + left or p > 0 and skew + left or 0
    return wait, max(0, limit - c - overlap), reset, 0, w, c, p, counted
  end,

  -- All takes of a window expire one window after it, so that only the first sets the TTL.
  take = function(policy, key, reset, w, c, p, counted)
    if counted then
      call('SET', key, pack('<ddd', w, c, p), 'KEEPTTL')
    else
      call('SET', key, pack('<ddd', w, c, p), 'PX', ttl(policy, reset))
    end
  end,

  charge = function(policy, key, weight)
    local w, c, p = rolled_counter(policy, key)
    local counted = c > 0
    c = add_debt(c, weight, floor(MAX_CHARGE / policy.window))
    policy.kernel.take(policy, key, (w + 2) * policy.window - policy.now, w, c, p, counted)
  end,

  -- Adds units of the current window or of the one before, as far as the estimate stays within the
  -- limit, and returns how many.
  settle = function(policy, key, index, units)
    local limit, window = policy.limit, policy.window
    local w, c, p, found = rolled_counter(policy, key)
    local left = window - (max(policy.now, w * window) - w * window)
    local counted, ends = found and c > 0, (w + 2) * window
    if index == w then
      units = min(units, limit - c - floor(p * left / window))
      c = c + max(0, units)
    elseif index == w - 1 then
      units = min(units, min(limit, floor(((limit - c + 1) * window - 1) / left)) - p)
      p = p + max(0, units)
      if c == 0 then
        ends = (w + 1) * window
      end
    else
      return 0
    end
    if units < 1 then
      return 0
    end
    policy.kernel.take(policy, key, ends - policy.now, w, c, p, counted)
    return units
  end,

  receipt = function(w)
    return w, 0
  end,

  refund = function(policy, key, weight, taken_in)
    local w, c, p, found = rolled_counter(policy, key)
    if not found or (taken_in ~= w and taken_in ~= w - 1) then
      return
    end
    if taken_in == w then
      c = max(0, c - weight)
    else
      p = max(0, p - weight)
    end
    call('SET', key, pack('<ddd', w, c, p), 'KEEPTTL')
  end,
}
