-- bucket_lease.lua: leases of bucket.lua, in the scripts of batches that take units ahead. The debt
-- counts as at least what drains until the lease ends, so that units that are spent right
-- before its end have not drained by then.
-- Go twin: bucket.Lease in internal/kernel/bucket.go
-- KEYS: that of bucket.lua.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks), the weight, the units that
-- must stay for others, the units wanted, and for how many ticks; to give back the units, the
-- longest lease in ticks, and the two numbers of the receipt.
-- Returns: of lease wait, remaining before the lease, reset (ticks), the units leased, for how many
-- ticks, and the two numbers of the receipt; of give_back nothing.
-- Example: 100 per second, capacity 100, no debt: 50 wanted for 10 ms -> 0, 100, 250 ms, 24 units
-- for 10 ms; the debt is 1 + 24 units.
kernels[#kernels].lease = function(policy, key, weight, reserve, want, lasts)
  local limit, window = policy.limit, policy.window
  local wait, remaining, reset, _, d, te, serial, holes =
    policy.kernel.decide(policy, key, weight, reserve)
  if wait ~= 0 or policy.max_delay ~= NO_QUEUE then
    return wait, remaining, reset, 0
  end
  local raised = max(d, lasts * limit)
  local units = leasable(floor((policy.volume - raised) / window) - reserve, want)
  if units > 0 then
    d = raised + units * window
    serial = ((serial or (policy.now * policy.tick + weight) % SERIALS) + units) % SERIALS
  end
  if weight + units > 0 then
    reset = te - policy.now + ceil_div(d, limit)
    policy.kernel.take(policy, key, reset, d, te, serial, holes)
  end
  return wait, remaining, reset, units, lasts, te, serial
end

-- Returns at most what the debt is above the units granted since, and above what later leases have
-- raised it by.
kernels[#kernels].give_back = function(policy, key, units, longest, granted_at, serial_then)
  local window = policy.window
  local d, te, serial, holes = drained_bucket(policy, key)
  if not serial or policy.now - granted_at >= policy.full then
    return
  end
  local since = (serial - serial_then) % SERIALS
  if since > floor(d / window) then
    return
  end
  local returned = min(units * window, d - since * window - longest * policy.limit)
  if returned > 0 then
    local state = pack('<ddd', d - returned, te, serial) .. (d > returned and holes or '')
    call('SET', key, state, 'KEEPTTL')
  end
end
