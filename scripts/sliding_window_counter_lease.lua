-- sliding_window_counter_lease.lua: leases of sliding_window_counter.lua, in the scripts of
-- batches that take units ahead. A lease ends with its window at the latest, and wants as much less
-- then.
-- Go twin: slidingWindowCounter.Lease in internal/kernel/sliding_window_counter.go
-- KEYS: that of sliding_window_counter.lua.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks), the weight, the units that
-- must stay for others, the units wanted, and for how many ticks; to give back the units, the
-- longest lease in ticks, and the two numbers of the receipt.
-- Returns: of lease wait, remaining before the lease, reset (ticks), the units leased, for how many
-- ticks, and the two numbers of the receipt; of give_back nothing.
-- Example: limit 100, window 10 s, p = 40, c = 9, 5 s into the window: weight 1, 50 wanted for 100
-- ms -> 0, 70, 15 s, 17 units for 100 ms.
kernels[#kernels].lease = function(policy, key, weight, reserve, want, lasts)
  local window = policy.window
  local wait, remaining, reset, _, w, c, p, counted =
    policy.kernel.decide(policy, key, weight, reserve)
  if wait ~= 0 then
    return wait, remaining, reset, 0
  end
  local ends = (w + 1) * window - policy.now
  if lasts > ends then
    want, lasts = floor(want * ends / lasts), ends
  end
  local units = leasable(remaining - reserve, want)
  c = c + units
  if weight + units > 0 then
    reset = ends + window
    policy.kernel.take(policy, key, reset, w, c, p, counted)
  end
  return wait, remaining, reset, units, lasts, w, 0
end

kernels[#kernels].give_back = function(policy, key, units, _, first, second)
  policy.kernel.refund(policy, key, units, units, first, second)
end
