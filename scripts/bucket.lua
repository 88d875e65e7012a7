-- bucket.lua: one draining level behind token_bucket, gcra and leaky_bucket. The debt d drains at
-- `limit` units per window and may rise to the capacity; the three names describe this one rule.
-- Go twin: limiter/bucket.go
-- KEYS: one state, a string of two doubles: debt d in 1/window units, tick t it was stored at. The
-- first reserve adds a third: the serial, units ever taken or charged. It begins at now in
-- microseconds and counts modulo SERIALS. Such a state lives at least as long as a full bucket
-- drains, so that a receipt never meets a serial that has begun anew.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks; max_delay -1: no queue), the
-- weight, and whether the operation reserves. decide returns wait, remaining, reset (ticks), delay,
-- and the state of a take.
-- Example: 1 per second, capacity 5, debt 5: weight 1 -> wait 1 s, remaining 0, reset 5 s.
local SERIALS = 2 ^ 52

-- The debt at tick te that is left at tick `at` of a debt that was d.
local function drained(d, te, at, limit)
  local elapsed = at - te
  if elapsed >= ceil_div(d, limit) then
    return 0
  end
  return d - elapsed * limit
end

-- The stored debt as it stands now, the instant it stands for, and the serial, nil without one.
local function drained_bucket(policy, key)
  local now = policy.now
  local state = call('GET', key)
  if not state then
    return 0, now
  end
  local d, t, serial
  if #state == 24 then
    d, t, serial = stored_numbers(state, '<ddd', 24)
  else
    d, t = stored_numbers(state, '<dd', 16)
  end
  if t - now > policy.full then
    return 0, now, serial
  end
  local te = max(now, t)
  return drained(min(d, policy.max_debt), t, te, policy.limit), te, serial
end

kernels[#kernels + 1] = {
  decide = function(policy, key, weight, reserves)
    local limit, window, max_delay = policy.limit, policy.window, policy.max_delay
    local d, te, serial = drained_bucket(policy, key)
    local skew = te - policy.now
    local queued = max_delay >= 0
    local delay = queued and ceil_div(d, limit) or 0
    local over = d + weight * window - policy.volume
    local wait = 0
    if weight == 0 or (over <= 0 and (not queued or delay <= max_delay)) then
      d = d + weight * window
    else
      wait = skew + ceil_div(over, limit)
      if queued then
        wait = max(wait, skew + delay - max_delay)
      end
    end
    if weight == 0 or wait > 0 then
      delay = 0
    end
    local drains = ceil_div(d, limit)
    local remaining = max(0, floor((policy.volume - d) / window))
    if queued and drains > max_delay then
      remaining = 0
    end
    if serial or reserves then
      serial = ((serial or policy.now * policy.tick) + weight) % SERIALS
    end
    return wait, remaining, d > 0 and skew + drains or 0, delay, d, te, serial
  end,

  take = function(policy, key, reset, d, te, serial)
    if serial then
      local lives = max(reset, te - policy.now + policy.full)
      call('SET', key, pack('<ddd', d, te, serial), 'PX', ttl(policy, lives))
    else
      call('SET', key, pack('<dd', d, te), 'PX', ttl(policy, reset))
    end
  end,

  -- A debt that saturates loses the serial, because the units beyond it are nowhere. Nothing that
  -- was taken before can be refunded then.
  charge = function(policy, key, weight)
    local d, te, serial = drained_bucket(policy, key)
    if weight > floor((policy.max_debt - d) / policy.window) then
      d, serial = policy.max_debt, nil
    else
      d = d + weight * policy.window
      serial = serial and (serial + weight) % SERIALS
    end
    policy.kernel.take(policy, key, te - policy.now + ceil_div(d, policy.limit), d, te, serial)
  end,

  receipt = function(_, te, serial)
    return te, serial
  end,

  -- Refunds at most what the debt is above the units since the take. They alone would be left of it
  -- if the bucket had once been empty meanwhile.
  refund = function(policy, key, weight, taken_at, serial_then)
    local window = policy.window
    local d, te, serial = drained_bucket(policy, key)
    if not serial or policy.now - taken_at >= policy.full then
      return
    end
    local since = (serial - serial_then) % SERIALS
    if since <= floor(d / window) then
      d = d - min(weight * window, d - since * window)
      call('SET', key, pack('<ddd', d, te, serial), 'KEEPTTL')
    end
  end,
}
