-- bucket.lua as it was before the serial: its states have two numbers. For tests of
-- nodes of both kinds.
-- Go twin: none; limiter/failover/upgrade_test.go runs it.
-- KEYS: one state, a string of two doubles: debt in 1/window units, tick it was stored at.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks), the weight, units, and the
-- two numbers of a receipt or of a debt.
-- Returns: of decide wait, remaining, reset, delay (times in ticks), and the state of a take.
-- Example: 1 per second, capacity 5, debt 5: weight 1 -> wait 1 s, remaining 0, reset 5 s.

local function drained(d, te, at, limit)
  local elapsed = at - te
  if elapsed >= ceil_div(d, limit) then
    return 0
  end
  return d - elapsed * limit
end

local function drained_bucket(policy, key)
  local now = policy.now
  local state = call('GET', key)
  if state then
    local d, t = stored_numbers(state, '<dd', 16)
    if t - now <= policy.full then
      local te = max(now, t)
      return drained(min(d, policy.max_debt), t, te, policy.limit), te
    end
  end
  return 0, now
end

kernels[#kernels + 1] = {
  decide = function(policy, key, weight)
    local limit, window, max_delay = policy.limit, policy.window, policy.max_delay
    local d, te = drained_bucket(policy, key)
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
    return wait, remaining, d > 0 and skew + drains or 0, delay, d, te
  end,

  take = function(policy, key, reset, d, te)
    call('SET', key, pack('<dd', d, te), 'PX', ttl(policy, reset))
  end,

  charge = function(policy, key, weight)
    local d, te = drained_bucket(policy, key)
    if weight > floor((policy.max_debt - d) / policy.window) then
      d = policy.max_debt
    else
      d = d + weight * policy.window
    end
    policy.kernel.take(policy, key, te - policy.now + ceil_div(d, policy.limit), d, te)
  end,

  receipt = function(d, te)
    return te, d
  end,

  refund = function(policy, key, weight, taken_at, debt)
    local d, te = drained_bucket(policy, key)
    if d == 0 then
      return
    end
    local undrained = drained(debt, taken_at, max(te, taken_at), policy.limit)
    d = max(0, d - min(weight * policy.window, undrained))
    local reset = te - policy.now + ceil_div(d, policy.limit)
    call('SET', key, pack('<dd', d, te), 'PX', ttl(policy, max(1, reset)))
  end,
}
