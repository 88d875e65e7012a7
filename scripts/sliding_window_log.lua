-- sliding_window_log.lua: keeps every admitted request for one window and sums their units.
-- Go twin: limiter/sliding_window_log.go
-- KEYS: one state, a list of 11-byte entries, oldest first: tick (6 bytes, big-endian, modulo
-- 2^48, and so exact within 2^47 ticks of now: no window is longer than a quarter of that), units
-- taken up to and including the entry (5 bytes, modulo 2^40). The entry before the oldest live
-- one is kept, so that differences of the running total give the units of any stretch; where
-- the head itself is live, the total before it is 0. A byte more would cost 14.2 bytes an entry.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks), the weight, and the units
-- that must stay for others.
-- decide returns wait, remaining, reset (ticks), delay, and what a take stores.
-- Example: 2 per 60 s, entries at 0 s and 10 s: weight 1 at 20 s -> wait 40 s, reset 50 s.

local LOG_ENTRY, LOG_BYTES, LOG_TICKS, LOG_UNITS = '>I6I5', 11, 2 ^ 48, 2 ^ 40

-- The most entries that the refunds of one run rewrite, which takes about half a millisecond. They
-- also fit Lua's stack, which holds some thousands.
local LOG_REWRITTEN = 1000
local log_rewritable = LOG_REWRITTEN   -- how many are left in this run; below 0 after the last

local function log_unpack(now, entry)
  if #entry ~= LOG_BYTES then
    foreign()
  end
  local tick, total = unpack_state(LOG_ENTRY, entry)
  return now - ((now - tick + LOG_TICKS / 2) % LOG_TICKS - LOG_TICKS / 2), total
end

local function log_pack(tick, total)
  return pack(LOG_ENTRY, tick % LOG_TICKS, total % LOG_UNITS)
end

-- Tick and running total of the entry at an index, nil where there is none.
local function log_entry(now, key, index)
  local entry = call('LINDEX', key, index)
  if entry then
    return log_unpack(now, entry)
  end
end

-- The number of dead entries (tick <= horizon) before the oldest live one, and the running total
-- up to there. The newest entry must be live. Gallops from the head, where the dead ones are.
local function log_dead(now, key, horizon)
  local low, base, step = -1, 0, 1
  local high
  while not high do
    local tick, total = log_entry(now, key, low + step)
    if tick and tick <= horizon then
      low, base = low + step, total
      step = low + 1
    else
      high = low + step
    end
  end
  while high - low > 1 do
    local middle = floor((low + high) / 2)
    local tick, total = log_entry(now, key, middle)
    if tick and tick <= horizon then
      low, base = middle, total
    else
      high = middle
    end
  end
  return high, base
end

-- The tick of the oldest live entry that, with all before it, must expire before `room` suffices.
local function log_blocker(now, key, dead, newest_total, room)
  local low, high = dead, call('LLEN', key) - 1
  while low < high do
    local middle = floor((low + high) / 2)
    local _, total = log_entry(now, key, middle)
    if (newest_total - total) % LOG_UNITS <= room then
      high = middle
    else
      low = middle + 1
    end
  end
  return (log_entry(now, key, low))
end

-- The entries that count now: the instant that stands for now, the units in them, the total before
-- them, the first entry to keep, and, where there are any, the newest tick and their first index.
local function log_used(policy, key)
  local window, now = policy.window, policy.now
  local newest, total = log_entry(now, key, -1)
  if not newest or newest - now > window or newest <= now - window then
    return now, 0, 0, newest and -1 or 0
  end
  local te = max(now, newest)
  local dead, base = log_dead(now, key, te - window)
  return te, (total - base) % LOG_UNITS, base, max(0, dead - 1), newest, dead
end

-- The index of the first entry of a live tick with at most LOG_REWRITTEN entries after it, the
-- total before it, and how many come after it; nil where there is none.
local function log_first(policy, key, taken_at)
  local now = policy.now
  local newest = log_entry(now, key, -1)
  if not newest or newest - now > policy.window then
    return
  end
  local horizon = max(now, newest) - policy.window
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
  decide = function(policy, key, weight, leave)
    local limit, window, now = policy.limit, policy.window, policy.now
    local te, used, base, keep_from, newest, dead = log_used(policy, key)
    if not newest then
      return 0, limit - weight, weight > 0 and window or 0, 0, te, weight, keep_from
    end
    local total = base + used
    if weight == 0 or used + weight + leave <= limit then
      if weight > 0 then
        newest, used = te, used + weight
      end
      local reset = used > 0 and newest + window - now or 0
      return 0, max(0, limit - used), reset, 0, te, total + weight, keep_from
    end
    local wait = log_blocker(now, key, dead, total, limit - weight - leave) + window - now
    if wait <= 0 or wait > 2 * window then
      foreign()   -- the entry is not live
    end
    return wait, max(0, limit - used), newest + window - now, 0
  end,

  take = function(policy, key, reset, te, total, keep_from)
    call('RPUSH', key, log_pack(te, total))
    if keep_from ~= 0 then
      call('LTRIM', key, keep_from, -1)
    end
    call('PEXPIRE', key, ttl(policy, reset))
  end,

  charge = function(policy, key, weight)
    local window, now = policy.window, policy.now
    local te, used, base, keep_from = log_used(policy, key)
    used = used + min(weight, LOG_UNITS - 1 - used)
    policy.kernel.take(policy, key, te + window - now, te, base + used, keep_from)
  end,

  -- Appends an entry, at its tick or that of the newest entry, whichever is later, and returns its
  -- units.
  settle = function(policy, key, tick, units)
    local window, now = policy.window, policy.now
    local te, used, base, keep_from, newest = log_used(policy, key)
    tick = max(min(tick, te), newest or 0)
    units = min(units, policy.limit - used)
    if tick <= te - window or units < 1 then
      return 0
    end
    policy.kernel.take(policy, key, tick + window - now, tick, base + used + units, keep_from)
    return units
  end,

  receipt = function(te)
    return te, 0
  end,

  -- Removes one live entry of that tick and weight by moving its successors up one place. An entry
  -- with more than LOG_REWRITTEN after it stays until it is dead. Returns true where the run has no
  -- room left for the work. The first write is one that a full Redis refuses, so that the list then
  -- stays as it is.
  refund = function(policy, key, weight, taken_at)
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
      local tick, total = log_unpack(now, entry)
      if found then
        moved[#moved + 1] = log_pack(tick, total - weight)
      elseif tick ~= taken_at then
        return
      elseif (total - before) % LOG_UNITS == weight then
        found = index + i - 1
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
