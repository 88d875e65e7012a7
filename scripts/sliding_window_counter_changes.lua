-- sliding_window_counter_changes.lua: what changes states of sliding_window_counter.lua apart from
-- takes. Scripts of takes alone leave it out.
-- Go twin: internal/kernel/sliding_window_counter.go
-- KEYS: that of sliding_window_counter.lua.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks), units, and the two numbers
-- of a receipt or of a debt.
-- Returns: of repay the whole units added; of receipt its two numbers.
-- Example: a charge of 5 where c = 9 of 10 -> c = 14, of which the next window still counts 10.
kernels[#kernels + 1] = {
  decide = decide,
  take = take,

  charge = function(policy, key, weight)
    local w, c, p = rolled_counter(policy, key)
    local counted = c > 0
    c = add_debt(c, weight, floor(MAX_CHARGE / policy.window))
    take(policy, key, (w + 2) * policy.window - policy.now, w, c, p, counted)
  end,

  -- Adds units of the current window or of the one before, as far as the estimate stays within the
  -- limit, and returns how many.
  repay = function(policy, key, index, units)
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
    take(policy, key, ends - policy.now, w, c, p, counted)
    return units
  end,

  receipt = function(w)
    return w, 0
  end,

  refund = function(policy, key, _, units, taken_in)
    local w, c, p, found = rolled_counter(policy, key)
    if not found or (taken_in ~= w and taken_in ~= w - 1) then
      return
    end
    if taken_in == w then
      c = max(0, c - units)
    else
      p = max(0, p - units)
    end
    call('SET', key, pack('<ddd', w, c, p), 'KEEPTTL')
  end,
}
