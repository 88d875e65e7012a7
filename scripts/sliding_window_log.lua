-- sliding_window_log.lua: keeps every admitted request for one window and sums their units.
-- Go twin: internal/kernel/sliding_window_log.go
-- KEYS: one state, a list of 11-byte entries, oldest first: tick (6 bytes, big-endian, modulo
-- 2^48, and so exact within 2^47 ticks of now: no window is longer than a quarter of that), units
-- taken up to and including the entry (5 bytes, modulo 2^40). The entry before the oldest live
-- one is kept, so that differences of the running total give the units of any stretch; where
-- the head itself is live, the total before it is 0. A byte more would cost 14.2 bytes an entry.
-- Leased units have the tick at which their lease ends. Such an entry, and those after it that have
-- to keep the order, have 3 bytes more: the lead, by how much the tick is ahead of the clock.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks), the weight, and the units
-- that must stay for others.
-- Returns: of decide wait, remaining, reset, delay (times in ticks), and what a take stores.
-- Example: 2 per 60 s, entries at 0 s and 10 s: weight 1 at 20 s -> wait 40 s, reset 50 s.

local LOG_ENTRY, LOG_BYTES, LOG_TICKS, LOG_UNITS = '>I6I5', 11, 2 ^ 48, 2 ^ 40
local LOG_LED_ENTRY, LOG_LED_BYTES = '>I6I5I3', 14

-- Tick, running total and lead of an entry.
local function log_unpack(now, entry)
  local tick, total, lead
  if #entry == LOG_BYTES then
    tick, total = unpack_state(LOG_ENTRY, entry)
    lead = 0
  elseif #entry == LOG_LED_BYTES then
    tick, total, lead = unpack_state(LOG_LED_ENTRY, entry)
  else
    foreign()
  end
  return now - ((now - tick + LOG_TICKS / 2) % LOG_TICKS - LOG_TICKS / 2), total, lead
end

local function log_pack(tick, total, lead)
  local entry
  if lead > 0 then
    entry = pack(LOG_LED_ENTRY, tick % LOG_TICKS, total % LOG_UNITS, lead)
  else
    entry = pack(LOG_ENTRY, tick % LOG_TICKS, total % LOG_UNITS)
  end
  return entry
end

-- Tick, running total and lead of the entry at an index, nil where there is none.
local function log_entry(now, key, index)
  local tick, total, lead
  local entry = call('LINDEX', key, index)
  if entry then
    tick, total, lead = log_unpack(now, entry)
  end
  return tick, total, lead
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
  local length = call('LLEN', key)
  local low, high = dead, length - 1
  while low < high do
    local middle = floor((low + high) / 2)
    local _, total = log_entry(now, key, middle)
    if (newest_total - total) % LOG_UNITS <= room then
      high = middle
    else
      low = middle + 1
    end
  end
  local tick = log_entry(now, key, low)
  return tick
end

-- The entries that count now: the instant that stands for now, the units in them, the total before
-- them, the first entry to keep, and, where there are any, the newest tick and their first index.
local function log_used(policy, key)
  local window, now = policy.window, policy.now
  local te, used, base, keep_from, dead = now, 0, 0, 0, nil
  local newest, total, lead = log_entry(now, key, -1)
  if newest and (newest - lead - now > window or newest <= now - window) then
    newest, keep_from = nil, -1
  elseif newest then
    if newest - lead > te then
      te = newest - lead
    end
    dead, base = log_dead(now, key, te - window)
    used = (total - base) % LOG_UNITS
    if dead > 1 then
      keep_from = dead - 1
    end
  end
  return te, used, base, keep_from, newest, dead
end

local function decide(policy, key, weight, reserve)
  local limit, window, now = policy.limit, policy.window, policy.now
  local te, used, base, keep_from, newest, dead = log_used(policy, key)
  local wait, tick, total, lead = 0, te, weight, 0
  local reset
  if not newest then
    used = weight
    reset = weight > 0 and window or 0
  elseif weight == 0 or used + weight + reserve <= limit then
    if weight > 0 and newest < te then
      newest = te
    end
    tick, total, lead = newest, base + used + weight, newest - te
    used = used + weight
    reset = used > 0 and newest + window - now or 0
  else
    wait = log_blocker(now, key, dead, base + used, limit - weight - reserve)
    wait = wait + window - now
    if wait <= 0 or wait > 3 * window then
      foreign()   -- the entry is not live
    end
    reset = newest + window - now
  end
  local remaining = used < limit and limit - used or 0
  return wait, remaining, reset, 0, tick, total, keep_from, lead
end

-- An error after the first write says so; internal/redis/errors.go matches the word.
local function take(policy, key, reset, tick, total, keep_from, lead)
  local entry = log_pack(tick, total, lead)
  call('RPUSH', key, entry)
  local trimmed = keep_from ~= 0 and redis.pcall('LTRIM', key, keep_from, -1)
  local lives = ttl(policy, reset)
  local expires = redis.pcall('PEXPIRE', key, lives)
  if expires ~= 1 or trimmed and trimmed.err then
    error('CHANGED ' .. (trimmed and trimmed.err or expires.err), 0)
  end
end
