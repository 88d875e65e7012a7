-- bucket.lua: one draining level behind token_bucket, gcra and leaky_bucket. The debt d drains at
-- `limit` units per window and may rise to the capacity; the three names describe this one rule.
-- Go twin: internal/kernel/bucket.go
-- KEYS: one state, a string of two doubles: debt d in 1/window units, tick t it was stored at. The
-- first take with a receipt adds a third: the serial, units ever taken or charged. It begins at now
-- in microseconds and counts modulo SERIALS. Such a state lives at least as long as a full bucket
-- drains, so that a receipt never meets a serial that has begun anew. Refunds append the holes of
-- the serial, up to HOLES pairs of doubles, newest first: the serial of a hole's last unit, its
-- units. A hole is the refunded units of takes that follow one another. Where there are too many,
-- two become a sum of both, which is marked by SERIALS added to its serial, that of the older one.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks; max_delay or NO_QUEUE), the
-- weight, the units that must stay for others, and whether it has a receipt.
-- Returns: of decide wait, remaining, reset, delay (times in ticks), and the state of a take. Where
-- the debt and the units for others drain later than a queue holds, remaining is BEYOND_QUEUE less
-- that number, such as -4 for 3: requests that reserve so much find nothing.
-- Example: 1 per second, capacity 5, debt 5: weight 1 -> wait 1 s, remaining 0, reset 5 s.
local SERIALS, HOLES = 2 ^ 52, 16

-- The debt at tick `at` that is left of a debt d at tick te.
local function drained(d, te, at, limit)
  local elapsed = at - te
  local rest = d - elapsed * limit
  if elapsed >= ceil_div(d, limit) then
    rest = 0
  end
  return rest
end

-- The stored debt as it stands now, the instant it stands for, the serial and the holes as they are
-- stored, nil without any. Once the debt has drained, holes are of no use.
local function drained_bucket(policy, key)
  local now, limit = policy.now, policy.limit
  local d, te, serial, holes = 0, now, nil, nil
  local state = call('GET', key)
  if state then
    local stored, t
    local size = #state
    if size > 16 and (size - 24) % 16 == 0 and size <= 24 + 16 * HOLES then
      stored, t, serial = stored_numbers(state, '<ddd', size)
      holes = size > 24 and state:sub(25)
    else
      stored, t = stored_numbers(state, '<dd', 16)
    end
    if t - now <= policy.full then
      if t > now then
        te = t
      end
      if stored > policy.max_debt then
        stored = policy.max_debt
      end
      d = drained(stored, t, te, limit)
    end
    holes = d > 0 and holes or nil
  end
  return d, te, serial, holes
end

-- How long a debt drains. As ceil_div, exact up to 2^53.
local function drain_time(d, limit)
  return (d - 1) / limit - (d - 1) / limit % 1 + 1
end

local function decide(policy, key, weight, reserve, _, refundable)
  local limit, window, max_delay = policy.limit, policy.window, policy.max_delay
  local d, te, serial, holes = drained_bucket(policy, key)
  local skew = te - policy.now
  local queued = max_delay ~= NO_QUEUE
  local delay = queued and ceil_div(d, limit) or 0
  local lead = delay   -- until also the units for others have drained
  if queued and reserve > 0 then
    lead = drain_time(d + reserve * window, limit)
  end
  local over = d + (weight + reserve) * window - policy.volume
  local wait = 0
  if weight == 0 or (over <= 0 and (not queued or lead <= max_delay)) then
    d = d + weight * window
  else
    wait = skew + ceil_div(over, limit)
    if queued and wait < skew + (lead - max_delay) then
      wait = skew + (lead - max_delay)
    end
  end
  if weight == 0 or wait > 0 then
    delay = 0
  end
  local drains = ceil_div(d, limit)
  local rest = (policy.volume - d) / window
  local remaining = rest > 0 and rest - rest % 1 or 0
  if queued and drains > max_delay then
    remaining = 0
  end
  if queued and reserve > 0 and drain_time(d + reserve * window, limit) > max_delay then
    remaining = BEYOND_QUEUE - remaining
  end
  if serial or refundable then
    serial = ((serial or policy.now * policy.tick) + weight) % SERIALS
  end
  local reset = d > 0 and skew + drains or 0
  return wait, remaining, reset, delay, d, te, serial, holes
end

local function take(policy, key, reset, d, te, serial, holes)
  if serial then
    local drains = te - policy.now + policy.full
    local lives = ttl(policy, reset > drains and reset or drains)
    call('SET', key, pack('<ddd', d, te, serial) .. (holes or ''), 'PX', lives)
  else
    local lives = ttl(policy, reset)
    call('SET', key, pack('<dd', d, te), 'PX', lives)
  end
end
