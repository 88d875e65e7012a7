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
-- stores.
-- Example: limit 10, starts of the days 0 to 3 since the Unix epoch, a state with s = 86400000000
-- and c = 10, 1.5 s before day 2: weight 1 -> wait 1.5 s.

-- The error makes the node send again; internal/limiter matches the word.
local function no_period()
  error('NOPERIOD now is outside of the periods that were sent', 0)
end

-- Whether two starts are of the same period.
local function same_period(policy, a, b)
  return 2 * math.abs(a - b) <= policy.shortest
end

-- The starts at a position of the message, which of these periods is the current one (nil: none),
-- and the length of the shortest.
local function read_periods(message, position, now)
  local a, b, c, d = unpack_state('<dddd', message, position)
  local starts, period = {a, b, c, d}, nil
  if b <= now and now < c then
    period = 2
  elseif a <= now and now < b then
    period = 1
  elseif c <= now and now < d then
    period = 3
  end
  return starts, period, min(b - a, c - b, d - c)
end

-- The stored state as it stands now: start, units, whether there is one, when its period ends.
local function rolled_period(policy, key)
  local starts, i = policy.starts, policy.period
  if not i then
    no_period()
  end
  local s, c, found, ends = starts[i], 0, false, starts[i + 1] - policy.now
  local state = call('GET', key)
  if state then
    local stored_s, stored_c = stored_numbers(state, '<dd', 16)
    local j = i
    if stored_s ~= s then   -- of another node's tables, or of another period
      j = 1
      for k = 2, 4 do
        if math.abs(starts[k] - stored_s) <= math.abs(starts[j] - stored_s) then
          j = k
        end
      end
    end
    if (j == i or j == i + 1) and same_period(policy, starts[j], stored_s) then
      if j == 4 then
        no_period()
      end
      s, c, found, ends = stored_s, stored_c, true, starts[j + 1] - policy.now
    end
  end
  return s, c, found, ends
end

local function decide(policy, key, weight, reserve)
  local limit = policy.limit
  local s, c, found, ends = rolled_period(policy, key)
  local wait = 0
  if weight == 0 or c + weight + reserve <= limit then
    c = c + weight
  else
    wait = ends
  end
  local remaining = c < limit and limit - c or 0
  local reset = c > 0 and ends or 0
  return wait, remaining, reset, 0, s, c, found
end

-- All takes of a period expire with it, so that only the first sets the TTL.
local function take(policy, key, reset, s, c, found)
  if found then
    call('SET', key, pack('<dd', s, c), 'KEEPTTL')
  else
    local lives = ttl(policy, reset)
    call('SET', key, pack('<dd', s, c), 'PX', lives)
  end
end
