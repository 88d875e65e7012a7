-- sliding_window_log_changes.lua: what changes states of sliding_window_log.lua apart from takes.
-- Scripts of takes alone leave it out.
-- Go twin: internal/kernel/sliding_window_log.go
-- KEYS: that of sliding_window_log.lua.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks), units, and the two numbers
-- of a receipt or of a debt.
-- Returns: of repay the whole units added; of receipt its two numbers; of refund true
-- if it is postponed.
-- Example: entries of 1 unit at 0 s and 10 s: the refund of the first one leaves that at 10 s, with
-- a total of 1.

-- The most entries that the refunds of one run rewrite, which takes about half a millisecond. They
-- also fit Lua's stack, which holds some thousands.
local LOG_REWRITTEN = 1000
local log_rewritable = LOG_REWRITTEN   -- how many are left in this run; below 0 after the last

-- The index of the first entry of a live tick with at most LOG_REWRITTEN entries after it, the
-- total before it, and how many come after it; nil where there is none.
local function log_first(policy, key, taken_at)
  local now = policy.now
  local newest, _, lead = log_entry(now, key, -1)
  if not newest or newest - lead - now > policy.window then
    return
  end
  local horizon = max(now, newest - lead) - policy.window
  if newest <= horizon or taken_at <= horizon then
    return
  end
  local index, before = log_dead(now, key, taken_at - 1)
  local last = call('LLEN', key) - 1
  if index > last then
    return
  end
  if last - index > LOG_REWRITTEN then
    local tick, total = log_entry(now, key, last - LOG_REWRITTEN - 1)
    if tick > taken_at then
      return
    end
    index, before = last - LOG_REWRITTEN, total
  end
  return index, before, last - index
end

kernels[#kernels + 1] = {
  decide = decide,
  take = take,

  charge = function(policy, key, weight)
    local window, now = policy.window, policy.now
    local te, used, base, keep_from, newest = log_used(policy, key)
    local tick = max(te, newest or 0)
    used = used + min(weight, LOG_UNITS - 1 - used)
    take(policy, key, tick + window - now, tick, base + used, keep_from, tick - te)
  end,

  -- Appends an entry, at its tick or that of the newest entry, whichever is later, and returns its
  -- units.
  repay = function(policy, key, tick, units)
    local window, now = policy.window, policy.now
    local te, used, base, keep_from, newest = log_used(policy, key)
    tick = max(min(tick, te), newest or 0)
    units = min(units, policy.limit - used)
    if tick <= te - window or units < 1 then
      return 0
    end
    take(policy, key, tick + window - now, tick, base + used + units, keep_from,
      max(0, tick - te))
    return units
  end,

  receipt = function(tick)
    return tick, 0
  end,

  -- Makes one live entry of that tick and weight smaller, with the totals after it, or removes it
  -- by moving its successors up one place. An entry with more than LOG_REWRITTEN after it stays
  -- until it is dead. Returns true where the run has no room left for the work. The first write is
  -- one that a full Redis refuses, so that the list then stays as it is.
  refund = function(policy, key, weight, units, taken_at)
    if log_rewritable < 0 then
      return true
    end
    local index, before, later = log_first(policy, key, taken_at)
    if not index then
      return
    end
    log_rewritable = log_rewritable - later
    if log_rewritable < 0 then
      return true
    end
    local now, moved = policy.now, {}
    local found
    for i, entry in ipairs(call('LRANGE', key, index, -1)) do
      local tick, total, lead = log_unpack(now, entry)
      if found then
        moved[#moved + 1] = log_pack(tick, total - units, lead)
      elseif tick ~= taken_at then
        return
      elseif (total - before) % LOG_UNITS == weight then
        found = index + i - 1
        if units < weight then
          moved[1] = log_pack(tick, total - units, lead)
        end
      end
      before = total
    end
    if not found then
      return
    end
    if #moved == 0 then
      call('LTRIM', key, 0, -2)
      return
    end
    call('LSET', key, found, moved[1])
    call('LTRIM', key, 0, found)
    if #moved > 1 then
      call('RPUSH', key, unpack(moved, 2))
    end
  end,
}
