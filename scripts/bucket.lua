-- bucket.lua: one draining level behind token_bucket, gcra and leaky_bucket. The debt d drains at
-- `limit` units per window and may rise to the capacity; the three names describe this one rule.
-- Go twin: limiter/bucket.go
-- KEYS: one state, a string of two doubles: debt d in 1/window units, tick t it was stored at. The
-- first reserve adds a third: the serial, units ever taken or charged. It begins at now in
-- microseconds and counts modulo SERIALS. Such a state lives at least as long as a full bucket
-- drains, so that a receipt never meets a serial that has begun anew. Refunds append the holes of
-- the serial, up to HOLES pairs of doubles, newest first: the serial of a hole's last unit, its
-- units. A hole is the refunded units of takes that follow one another. Where there are too many,
-- two become a sum of both, which is marked by SERIALS added to its serial, that of the older one.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks; max_delay -1: no queue), the
-- weight, the units that must stay for others, and whether the operation reserves. decide returns
-- wait, remaining, reset (ticks), delay, and the state of a take. Where the debt and the units for
-- others drain later than a queue holds, remaining is that number negated, less one: requests that
-- leave so much find nothing.
-- Example: 1 per second, capacity 5, debt 5: weight 1 -> wait 1 s, remaining 0, reset 5 s.
local SERIALS, HOLES = 2 ^ 52, 16

-- The debt at tick te that is left at tick `at` of a debt that was d.
local function drained(d, te, at, limit)
  local elapsed = at - te
  if elapsed >= ceil_div(d, limit) then
    return 0
  end
  return d - elapsed * limit
end

-- The stored debt as it stands now, the instant it stands for, the serial and the holes as they are
-- stored, nil without any. Once the debt has drained, holes are of no use.
local function drained_bucket(policy, key)
  local now = policy.now
  local state = call('GET', key)
  if not state then
    return 0, now
  end
  local d, t, serial, holes
  local size = #state
  if size > 16 and (size - 24) % 16 == 0 and size <= 24 + 16 * HOLES then
    d, t, serial = stored_numbers(state, '<ddd', size)
    holes = size > 24 and state:sub(25)
  else
    d, t = stored_numbers(state, '<dd', 16)
  end
  if t - now > policy.full then
    return 0, now, serial
  end
  local te = max(now, t)
  d = drained(min(d, policy.max_debt), t, te, policy.limit)
  return d, te, serial, d > 0 and holes or nil
end

-- How long a debt drains. As ceil_div, exact up to 2^53.
local function drain_time(d, limit)
  return floor((d - 1) / limit) + 1
end

kernels[#kernels + 1] = {
  decide = function(policy, key, weight, leave, reserves)
    local limit, window, max_delay = policy.limit, policy.window, policy.max_delay
    local d, te, serial, holes = drained_bucket(policy, key)
    local skew = te - policy.now
    local queued = max_delay >= 0
    local delay = queued and ceil_div(d, limit) or 0
    local lead = delay   -- until also the units for others have drained
    if queued and leave > 0 then
      lead = drain_time(d + leave * window, limit)
    end
    local over = d + (weight + leave) * window - policy.volume
    local wait = 0
    if weight == 0 or (over <= 0 and (not queued or lead <= max_delay)) then
      d = d + weight * window
    else
      wait = skew + ceil_div(over, limit)
      if queued then
        wait = max(wait, skew + lead - max_delay)
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
    if queued and leave > 0 and drain_time(d + leave * window, limit) > max_delay then
      remaining = -1 - remaining
    end
    if serial or reserves then
      serial = ((serial or policy.now * policy.tick) + weight) % SERIALS
    end
    return wait, remaining, d > 0 and skew + drains or 0, delay, d, te, serial, holes
  end,

  take = function(policy, key, reset, d, te, serial, holes)
    if serial then
      local lives = max(reset, te - policy.now + policy.full)
      call('SET', key, pack('<ddd', d, te, serial) .. (holes or ''), 'PX', ttl(policy, lives))
    else
      call('SET', key, pack('<dd', d, te), 'PX', ttl(policy, reset))
    end
  end,

  -- A debt that saturates loses the serial, because the units beyond it are nowhere. Nothing that
  -- was taken before can be refunded then.
  charge = function(policy, key, weight)
    local d, te, serial, holes = drained_bucket(policy, key)
    if weight > floor((policy.max_debt - d) / policy.window) then
      d, serial = policy.max_debt, nil
    else
      d = d + weight * policy.window
      serial = serial and (serial + weight) % SERIALS
    end
    local drains = te - policy.now + ceil_div(d, policy.limit)
    policy.kernel.take(policy, key, drains, d, te, serial, holes)
  end,

  -- Adds to the debt and returns the whole units of it. The serial advances by a unit for every
  -- part of one, so that a refund never returns what was settled.
  settle = function(policy, key, _, amount)
    local window = policy.window
    local d, te, serial, holes = drained_bucket(policy, key)
    local added = min(amount, policy.volume - d)
    if added < 1 then
      return 0
    end
    d = d + added
    serial = serial and (serial + ceil_div(added, window)) % SERIALS
    local drains = te - policy.now + ceil_div(d, policy.limit)
    policy.kernel.take(policy, key, drains, d, te, serial, holes)
    return floor(added / window)
  end,

  receipt = function(_, te, serial)
    return te, serial
  end,

  -- Refunds at most what the debt is above the units since the take, without the refunded ones of
  -- them. They alone would be left of it if the bucket had once been empty meanwhile. The units
  -- become a hole, which refunds of older takes do not count. A receipt in a hole was refunded.
  refund = function(policy, key, weight, taken_at, serial_then)
    local window = policy.window
    local d, te, serial, stored = drained_bucket(policy, key)
    if not serial or policy.now - taken_at >= policy.full then
      return
    end
    local age = (serial - serial_then) % SERIALS   -- units ago
    local holes, since, newer = {}, age, 0
    for position = 1, stored and #stored or 0, 16 do
      local ended, units = stored_numbers(stored:sub(position, position + 15), '<dd', 16)
      local hole = {age = (serial - ended) % SERIALS, units = units, sum = ended >= SERIALS}
      holes[#holes + 1] = hole
      if hole.age == age or (hole.age < age and not hole.sum and hole.age + units > age) then
        return
      elseif hole.age < age then
        since, newer = since - units, #holes
      end
    end
    if since < 0 or since > floor(d / window) then
      return
    end
    local returned = min(weight * window, d - since * window)
    if returned <= 0 then
      return
    end
    d = d - returned

    -- Joins a hole with the one that is older by a place, where no unit is between them.
    local function join(place)
      local hole, older = holes[place], holes[place + 1]
      if hole and older and not hole.sum and hole.age + hole.units == older.age then
        hole.units, hole.sum = hole.units + older.units, older.sum
        table.remove(holes, place + 1)
      end
    end
    table.insert(holes, newer + 1, {age = age, units = weight, sum = false})
    join(newer + 1)
    join(newer)

    -- Drops the holes before which everything has drained. The units since are at least those that
    -- follow the older of a sum's takes.
    local kept, refunded, drains = 0, 0, ceil_div(d, window)
    for _, hole in ipairs(holes) do
      if hole.age - refunded - (hole.sum and hole.units or 0) >= drains then
        break
      end
      kept, refunded = kept + 1, refunded + hole.units
    end
    for place = #holes, kept + 1, -1 do
      holes[place] = nil
    end

    -- Of too many holes two neighbors become a sum, those with the fewest units between them.
    -- Takes between the two get less back, and never more.
    if #holes > HOLES then
      local place, least = #holes - 1, SERIALS
      for i = #holes - 1, 1, -1 do
        local between = holes[i + 1].age - holes[i].age - holes[i].units
        if not holes[i].sum and between < least then
          place, least = i, between
        end
      end
      local hole, older = holes[place], holes[place + 1]
      older.units, older.sum = older.units + hole.units, true
      table.remove(holes, place)
    end
    local texts = {pack('<ddd', d, te, serial)}
    for i, hole in ipairs(holes) do
      local ended = (serial - hole.age) % SERIALS
      texts[i + 1] = pack('<dd', hole.sum and ended + SERIALS or ended, hole.units)
    end
    call('SET', key, table.concat(texts), 'KEEPTTL')
  end,
}
