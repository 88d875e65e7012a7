-- sliding_window_log_lease.lua: leases of sliding_window_log.lua, in the scripts of batches that
-- take units ahead. Leased units count from the tick at which their lease ends: none of them is
-- spent later.
-- Go twin: slidingWindowLog.Lease in internal/kernel/sliding_window_log_lease.go
-- KEYS: that of sliding_window_log.lua.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks), the weight, the units that
-- must stay for others, the units wanted, and for how many ticks; to give back the units, the
-- longest lease in ticks, and the two numbers of the receipt.
-- Returns: of lease wait, remaining before the lease, reset (ticks), the units leased, for how many
-- ticks, and the two numbers of the receipt; of give_back nothing.
-- Example: 100 per 60 s, 19 units at 0 s: weight 1 at 20 s, 50 wanted for 100 ms -> 0, 80, 60.1 s,
-- 20 units for 100 ms, in one entry of 21 units at 20.1 s with a lead of 100 ms.
kernels[#kernels].lease = function(policy, key, weight, reserve, want, lasts)
  local window, now = policy.window, policy.now
  local wait, remaining, reset, _, tick, total, keep_from, lead =
    policy.kernel.decide(policy, key, weight, reserve)
  if wait ~= 0 then
    return wait, remaining, reset, 0
  end
  local units = leasable(remaining - reserve, want)
  if units > 0 then
    local te, _, _, _, newest = log_used(policy, key)
    tick = max(te + lasts, newest or 0)
    total, lead = total + units, tick - te
  end
  if weight + units > 0 then
    reset = tick + window - now
    policy.kernel.take(policy, key, reset, tick, total, keep_from, lead)
  end
  return wait, remaining, reset, units, lasts, tick, 0
end

-- Takes units off the live entries of a tick, where at most LOG_REWRITTEN entries come after them
-- and this run has room for the work. The first write is one that a full Redis refuses.
kernels[#kernels].give_back = function(policy, key, units, _, given_at)
  if log_rewritable < 0 then
    return
  end
  local index, before, later = log_first(policy, key, given_at)
  if not index then
    return
  end
  log_rewritable = log_rewritable - later
  if log_rewritable < 0 then
    return
  end
  local now, kept, off = policy.now, {}, 0
  for i, entry in ipairs(call('LRANGE', key, index, -1)) do
    local tick, total, lead = log_unpack(now, entry)
    if i == 1 and tick ~= given_at then
      return
    end
    local own = (total - before) % LOG_UNITS
    before = total
    local less = 0
    if tick == given_at then
      less = min(units - off, own)
      off = off + less
    end
    if less == 0 or less < own then
      kept[#kept + 1] = log_pack(tick, total - off, lead)
    end
  end
  if off == 0 then
    return
  end
  if #kept > 0 then
    call('LSET', key, index, kept[1])
    call('LTRIM', key, 0, index)
    if #kept > 1 then
      call('RPUSH', key, unpack(kept, 2))
    end
  elseif index > 0 then
    call('LTRIM', key, 0, index - 1)
  else
    call('LTRIM', key, 1, 0)
  end
end
