-- calendar.lua: counts units in calendar periods of a time zone.
-- Go twin: internal/kernel/calendar.go
-- KEYS: one state, a string of two doubles: start s of a period in microseconds since the Unix
-- epoch, units c counted in it.
-- ARGV: behind the policies of batch.lua, per policy: the starts of four periods one after the
-- other, as the node's tables of time zones have them, of which the second should be the current
-- one. Lua has no time zones. A node whose clock is wrong may send other periods than those around
-- now. Nothing is decided then, and the error makes the node send again, by this answer's time.
-- Nodes may have different tables: a start is of the period whose start is nearest to it.
-- Returns: of decide wait, remaining, reset (ticks of 1 us), delay, and the state that a take
-- stores; of the others what those of fixed_window_changes.lua return.
-- Example: limit 10, starts of the days 0 to 3 since the Unix epoch, a state with s = 86400000000
-- and c = 10, 1.5 s before day 2: weight 1 -> wait 1.5 s.

local function no_period()
  error('NOPERIOD now is outside of the periods that were sent', 0)
end

-- Whether two starts are of the same period.
local function same_period(policy, a, b)
  return 2 * math.abs(a - b) <= policy.shortest
end

-- The stored state as it stands now: start, units, whether there is one, when its period ends.
local function rolled_period(policy, key)
  local starts, i = policy.starts, policy.period
  if not i then
    no_period()
  end
  local state = call('GET', key)
  if state then
    local s, c = stored_numbers(state, '<dd', 16)
    local j = 1
    for k = 2, 4 do
      if math.abs(starts[k] - s) <= math.abs(starts[j] - s) then
        j = k
      end
    end
    if (j == i or j == i + 1) and same_period(policy, starts[j], s) then
      if j == 4 then
        no_period()
      end
      return s, c, true, starts[j + 1] - policy.now
    end
  end
  return starts[i], 0, false, starts[i + 1] - policy.now
end

kernels[#kernels + 1] = {
  read = function(policy, message, position)
    local a, b, c, d
    a, b, c, d, position = unpack_state('<dddd', message, position)
    policy.starts, policy.shortest = {a, b, c, d}, min(b - a, c - b, d - c)
    for i = 1, 3 do
      if policy.starts[i] <= policy.now and policy.now < policy.starts[i + 1] then
        policy.period = i
      end
    end
    return position
  end,

  -- Raises an error where the policy cannot be decided now.
  verify = function(policy, key)
    rolled_period(policy, key)
  end,

  decide = function(policy, key, weight, reserve)
    local s, c, found, ends = rolled_period(policy, key)
    local wait = 0
    if weight == 0 or c + weight + reserve <= policy.limit then
      c = c + weight
    else
      wait = ends
    end
    return wait, max(0, policy.limit - c), c > 0 and ends or 0, 0, s, c, found
  end,

  -- All takes of a period expire with it, so that only the first sets the TTL.
  take = function(policy, key, reset, s, c, found)
    if found then
      call('SET', key, pack('<dd', s, c), 'KEEPTTL')
    else
      call('SET', key, pack('<dd', s, c), 'PX', ttl(policy, reset))
    end
  end,

  charge = function(policy, key, weight)
    local s, c, found, ends = rolled_period(policy, key)
    policy.kernel.take(policy, key, ends, s, add_debt(c, weight, MAX_CHARGE), found)
  end,

  -- Adds units of the current period and returns how many.
  repay = function(policy, key, start, units)
    local s, c, found, ends = rolled_period(policy, key)
    units = min(units, policy.limit - c)
    if units < 1 or not same_period(policy, s, start) then
      return 0
    end
    policy.kernel.take(policy, key, ends, s, c + units, found)
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
