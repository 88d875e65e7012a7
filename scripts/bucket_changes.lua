-- bucket_changes.lua: what changes states of bucket.lua apart from takes. Scripts of takes alone
-- leave it out.
-- Go twin: internal/kernel/bucket.go
-- KEYS: that of bucket.lua.
-- ARGV: none of its own; batch.lua passes the policy (times in ticks), units, and the two numbers
-- of a receipt or of a debt.
-- Returns: of repay the whole units added; of receipt its two numbers.
-- Example: 1 per second, capacity 5, debt 4, a serial that is 3 units ahead of a receipt: its
-- refund of 1 unit leaves the debt 3.
kernels[#kernels + 1] = {
  decide = decide,
  take = take,

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
    take(policy, key, drains, d, te, serial, holes)
  end,

  -- Adds to the debt and returns the whole units of it. The serial advances by a unit for every
  -- part of one, so that a refund never returns what was repaid.
  repay = function(policy, key, _, amount)
    local window = policy.window
    local d, te, serial, holes = drained_bucket(policy, key)
    local added = min(amount, policy.volume - d)
    if added < 1 then
      return 0
    end
    d = d + added
    serial = serial and (serial + ceil_div(added, window)) % SERIALS
    local drains = te - policy.now + ceil_div(d, policy.limit)
    take(policy, key, drains, d, te, serial, holes)
    return floor(added / window)
  end,

  receipt = function(_, te, serial)
    return te, serial
  end,

  -- Refunds at most what the debt is above the units since the take, without the refunded ones of
  -- them. They alone would be left of it if the bucket had once been empty meanwhile. The units
  -- become a hole, which refunds of older takes do not count. A receipt in a hole was refunded.
  refund = function(policy, key, _, refunded, taken_at, serial_then)
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
    local returned = min(refunded * window, d - since * window)
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
    table.insert(holes, newer + 1, {age = age, units = refunded, sum = false})
    join(newer + 1)
    join(newer)

    -- Drops the holes before which everything has drained. The units since are at least those that
    -- follow the older of a sum's takes.
    local kept, before, drains = 0, 0, ceil_div(d, window)
    for _, hole in ipairs(holes) do
      if hole.age - before - (hole.sum and hole.units or 0) >= drains then
        break
      end
      kept, before = kept + 1, before + hole.units
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
