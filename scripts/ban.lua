-- ban.lua: refuses a client that is denied too often, for a while that grows with each offense.
-- Part of the scripts of batches with a policy that bans; batch.lua calls it.
-- Go twin: internal/kernel/ban.go
-- KEYS: after the states, one per check of a policy that bans, from the last key backwards: a
--       string of five doubles: denials d counted since s, offenses o, banned until u, offenses
--       forgotten at f. Two more where there are confirmed units: cu of them since cs. Instants are
--       microseconds since the Unix epoch, whatever the policy's tick.
-- ARGV: behind the policies of batch.lua, per policy: number of durations (0: it does not ban), and
--       where there are any: the number of denials that are an offense, 1 where only confirmed
--       units count (else 0), the durations in microseconds.
-- Returns: a banned check denies for as long as it is banned, with nothing remaining; its delay is
--       BANNED times that time, and BAN_BEGINS more where this request began the ban.
-- Example: ban 30 s after 1, a denial that waits 9 s -> banned: wait 30 s, delay -60000001.
local BAN, CONFIRMED_BAN, BAN_BYTES, CONFIRMED_BAN_BYTES = '<ddddd', '<ddddddd', 40, 56

-- The checks of the current group: how many ban, the place of each among these, and of the first.
local ban_count, ban_places, ban_first, ban_done = 0, {}, 0, 0
local ban_requests = 0
local ban_left, ban_began = {}, {}   -- of the current request, by check

local function ban_key(i, done)
  local requests = (done - ban_done) / #ban_places
  return KEYS[#KEYS - ban_first - requests * ban_count - ban_places[i]]
end

-- The stored numbers as they stand now. Those that a wrong clock wrote count as none.
local function stored_ban(policy, key)
  local state = call('GET', key)
  if not state then
    return 0, 0, 0, 0, 0, 0, 0
  end
  local confirmed = #state == CONFIRMED_BAN_BYTES
  local d, s, o = stored_numbers(state, BAN, confirmed and CONFIRMED_BAN_BYTES or BAN_BYTES)
  local u, f = stored_numbers(string.sub(state, 25, 40), '<dd', 16)
  local cs, cu = 0, 0
  if confirmed then
    cs, cu = stored_numbers(string.sub(state, 41), '<dd', 16)
  end
  local ban = policy.ban
  if u - now_us > 2 * ban.longest or (d > 0 and s - now_us > ban.window)
    or (cu > 0 and cs - now_us > ban.window) then
    return 0, 0, 0, 0, 0, 0, 0
  end
  return d, s, o, u, f, cs, cu
end

-- Stores the numbers for as long as one of them matters; returns an error instead of raising it.
local function store_ban(policy, key, d, s, o, u, f, cs, cu)
  local window, ends = policy.ban.window, f
  if d > 0 then
    ends = max(ends, s + window)
  end
  local state = pack(BAN, d, s, o, u, f)
  if cu > 0 then
    ends = max(ends, cs + window)
    state = pack(CONFIRMED_BAN, d, s, o, u, f, cs, cu)
  end
  local lives = string.format('%d', max(1, ceil_div(ends - now_us, 1000)) + grace)
  return redis.pcall('SET', key, state, 'PX', lives)
end

-- Counts a denial, and bans where it is an offense. A full Redis stores neither; the denial stays.
local function count_denial(i, policy, key)
  local ban = policy.ban
  local d, s, o, u, f, cs, cu = stored_ban(policy, key)
  if ban.confirms and (now_us - cs >= ban.window or cu < policy.capacity) then
    return
  end
  if d == 0 or now_us - s >= ban.window then
    d, s = 0, now_us
  end
  d = d + 1
  if d < ban.after then
    store_ban(policy, key, d, s, o, u, f, cs, cu)
    return
  end
  o = now_us < f and o + 1 or 1
  local lasts = ban.durations[min(o, #ban.durations)]
  u = now_us + lasts
  local stored = store_ban(policy, key, 0, 0, o, u, u + ban.longest, cs, cu)
  if not stored.err then
    ban_left[i], ban_began[i] = lasts, true
  end
end

-- Reports whether a request would be denied that reserves nothing. A denial for their sake
-- alone is no offense.
local function denied_itself(policy, key, weight)
  local wait = policy.kernel.decide(policy, key, weight, 0)
  return wait > 0
end

bans = {
  -- Reads which policies ban from the message; returns the position behind them.
  read = function(policies, message, position)
    for i = 1, #policies do
      local policy, count = policies[i]
      count, position = unpack_state('<d', message, position)
      if count > 0 then
        local ban, confirms = {window = policy.window * policy.tick, durations = {}, longest = 0}
        ban.after, confirms, position = unpack_state('<dd', message, position)
        ban.confirms = confirms == 1
        for j = 1, count do
          ban.durations[j], position = unpack_state('<d', message, position)
          ban.longest = max(ban.longest, ban.durations[j])
        end
        policy.ban = ban
      end
    end
    return position
  end,

  -- Begins a group of requests of these policies behind the checks done so far, and reports whether
  -- one of them bans.
  begin = function(policies, requests, done)
    ban_first = ban_first + ban_requests * ban_count
    ban_requests, ban_done, ban_count, ban_places = requests, done, 0, {}
    ban_left, ban_began = {}, {}
    for i = 1, #policies do
      ban_places[i] = ban_count
      if policies[i].ban then
        ban_count = ban_count + 1
      end
    end
    return ban_count > 0
  end,

  -- Applies bans to a request whose checks are decided, and counts its denials, unless one of its
  -- checks is banned already. Returns whether the request still passes.
  judge = function(counts, policies, weights, reserves, decided, passes, done)
    ban_left, ban_began = {}, {}
    local banned, denied = false, false
    for i = 1, #policies do
      local policy, wait = policies[i], decided[i][1]
      denied = denied or wait ~= 0
      if policy.ban and wait >= 0 then
        local _, _, _, u = stored_ban(policy, ban_key(i, done))
        if u > now_us then
          banned, ban_left[i] = true, u - now_us
          passes = passes and weights[i] == 0
        end
      end
    end
    if counts and denied and not banned then
      for i = 1, #policies do
        local reserve = reserves and reserves[i] or 0
        if policies[i].ban and decided[i][1] > 0
          and (reserve == 0 or denied_itself(policies[i], KEYS[done + i], weights[i])) then
          count_denial(i, policies[i], ban_key(i, done))
        end
      end
    end
    return passes
  end,

  -- The answer to check i, in microseconds, with its ban if it has one.
  show = function(i, weight, wait, remaining, reset, delay)
    local left = ban_left[i]
    if not left then
      return wait, remaining, reset, delay
    end
    return weight > 0 and max(wait, left) or 0, 0, max(reset, left),
      BANNED * left + (ban_began[i] and BAN_BEGINS or 0)
  end,

  -- Counts units of check i that were taken and stay.
  confirm = function(i, policy, weight, done)
    local key = ban_key(i, done)
    local d, s, o, u, f, cs, cu = stored_ban(policy, key)
    if now_us - cs >= policy.ban.window then
      cs, cu = now_us, 0
    end
    local stored = store_ban(policy, key, d, s, o, u, f, cs, add_debt(cu, weight, MAX_CHARGE))
    if stored.err then
      error(stored)
    end
  end,
}
