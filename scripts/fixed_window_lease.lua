-- fixed_window_lease.lua: leases of fixed_window.lua, in the scripts of batches that take units
-- ahead. A lease ends with its window at the latest, and wants as much less then.
-- Go twin: fixedWindow.Lease in internal/kernel/fixed_window.go
-- KEYS: that of fixed_window.lua.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks), the weight, the units that
-- must stay for others, the units wanted, and for how many ticks; to give back the units, the
-- longest lease in ticks, and the two numbers of the receipt.
-- Returns: of lease wait, remaining before the lease, reset (ticks), the units leased, for how many
-- ticks, and the two numbers of the receipt; of give_back nothing.
-- Example: limit 100, window 10 s, a state with c = 19 at 9.95 s: weight 1, 50 wanted for 100 ms
-- -> 0, 80, 50 ms, 20 units for 50 ms.
kernels[#kernels].lease = function(policy, key, weight, reserve, want, lasts)
  local wait, remaining, reset, _, w, c, found = policy.kernel.decide(policy, key, weight, reserve)
  if wait ~= 0 then
    return wait, remaining, reset, 0
  end
  local ends = (w + 1) * policy.window - policy.now
  if lasts > ends then
    want, lasts = floor(want * ends / lasts), ends
  end
  local units = leasable(remaining - reserve, want)
  c = c + units
  if weight + units > 0 then
    reset = ends
    policy.kernel.take(policy, key, reset, w, c, found)
  end
  return wait, remaining, reset, units, lasts, w, 0
end

kernels[#kernels].give_back = function(policy, key, units, _, first, second)
  policy.kernel.refund(policy, key, units, units, first, second)
end
