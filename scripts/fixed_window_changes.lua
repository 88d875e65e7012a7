-- fixed_window_changes.lua: what changes states of fixed_window.lua apart from takes. Scripts of
-- takes alone leave it out.
-- Go twin: internal/kernel/fixed_window.go
-- KEYS: that of fixed_window.lua.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks), units, and the two numbers
-- of a receipt or of a debt.
-- Returns: of repay the whole units added; of receipt its two numbers.
-- Example: a charge of 5 where c = 9 of 10 -> c = 14, and nothing is left in this window.
kernels[#kernels + 1] = {
  decide = decide,
  take = take,

  charge = function(policy, key, weight)
    local w, c, found = rolled_window(policy, key)
    c = add_debt(c, weight, floor(MAX_CHARGE / policy.window))
    take(policy, key, (w + 1) * policy.window - policy.now, w, c, found)
  end,

  -- Adds units of the current window and returns how many.
  repay = function(policy, key, index, units)
    local w, c, found = rolled_window(policy, key)
    units = min(units, policy.limit - c)
    if w ~= index or units < 1 then
      return 0
    end
    take(policy, key, (w + 1) * policy.window - policy.now, w, c + units, found)
    return units
  end,

  receipt = function(w)
    return w, 0
  end,

  refund = function(policy, key, _, units, taken_in)
    local w, c, found = rolled_window(policy, key)
    if found and w == taken_in then
      call('SET', key, pack('<dd', w, max(0, c - units)), 'KEEPTTL')
    end
  end,
}
