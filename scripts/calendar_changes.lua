-- calendar_changes.lua: what changes states of calendar.lua apart from takes. Scripts of takes
-- alone leave it out.
-- Go twin: internal/kernel/calendar.go
-- KEYS: that of calendar.lua.
-- ARGV: as for calendar.lua; of the functions the policy, units, and the two numbers of a receipt
-- or of a debt.
-- Returns: of repay the whole units added; of receipt its two numbers.
-- Example: a charge of 5 where c = 9 of 10 -> c = 14, and nothing is left in this period.
kernels[#kernels + 1] = {
  decide = decide,
  take = take,

  read = function(policy, message, position)
    policy.starts, policy.period, policy.shortest = read_periods(message, position, policy.now)
    return position + 32
  end,

  -- Raises an error where the policy cannot be decided now.
  verify = function(policy, key)
    rolled_period(policy, key)
  end,

  charge = function(policy, key, weight)
    local s, c, found, ends = rolled_period(policy, key)
    take(policy, key, ends, s, add_debt(c, weight, MAX_CHARGE), found)
  end,

  -- Adds units of the current period and returns how many.
  repay = function(policy, key, start, units)
    local s, c, found, ends = rolled_period(policy, key)
    units = min(units, policy.limit - c)
    if units < 1 or not same_period(policy, s, start) then
      return 0
    end
    take(policy, key, ends, s, c + units, found)
    return units
  end,

  receipt = function(s)
    return s, 0
  end,

  refund = function(policy, key, _, units, taken_in)
    local s, c, found = rolled_period(policy, key)
    if found and same_period(policy, s, taken_in) then
      call('SET', key, pack('<dd', s, max(0, c - units)), 'KEEPTTL')
    end
  end,
}
