-- waiting.lua: counts the units of the requests that run, for each node that runs them, as
-- concurrency.lua does, and has the requests that wait on all nodes take turns.
-- Go twin: internal/waiting/twin_test.go; internal/kernel/waiting.go says how turns, claims and
-- slots decide
-- KEYS: one state, a hash with the fields of concurrency.lua: `all`, and one per node. Beside these
--       `next` is a string of four doubles: a claim's turn, its node, its units, its end. `t0` to
--       `t63` are one double each: when a value of that slot last had its turn. Instants are
--       microseconds since the Unix epoch. The field of a node is told by its 8 bytes.
-- ARGV: per policy: the ID of this node. Per request and check of a take and a state: epoch and
--       base, as for concurrency.lua, and the age of the turn; NO_TURN: the request does not wait.
--       With an age four more numbers follow: how long the claim of a denial lasts (0: a denial
--       leaves no claim), the slot of the value, the slot of the last start on this node (NO_SLOT
--       for both: there is none), and the age of that start. Ages and lengths are microseconds.
-- Returns: as concurrency.lua. To a take that waits the reset is the age of its turn, and the delay
--       that of another node's claim, at least 1; 0: there is none. Where more runs than the limit,
--       the delay is older than any claim.
-- Example: limit 1, which is in use, a take of weight 1 whose turn is 4 s old -> wait 1 s,
--       remaining 0, reset 4 s, delay 0, and the claim is the node's.
local TURN_ALL, TURN_NEXT, TURN_NODE = 'all', 'next', 8   -- fields; the length of a node's
local TURN_ENTRY, TURN_HEAD, TURN_CLAIM = '<ddd', '<ddddd', '<dddd'
local LONGEST_CLAIM, MOST_SLACK = 10000000, 1000000

local function turn_field(slot)
  return string.format('t%d', slot)
end

-- The doubles of a stored string of this size, of up to five.
local function turn_numbers(text, format, size)
  if #text ~= size then
    foreign()
  end
  local a, b, c, d, e = unpack_state(format, text)
  d, e = size > 24 and d or 0, size > 32 and e or 0   -- else the position behind the numbers
  if a % 1 + b % 1 + c % 1 + d % 1 + e % 1 ~= 0 or a < 0 or b < 0 or c < 0 or d < 0 or e < 0
    or a > MAX_STORED or b > MAX_STORED or c > MAX_STORED or d > MAX_STORED or e > MAX_STORED then
    foreign()
  end
  return a, b, c, d, e
end

-- When the slot's value last had its turn; nil: never, or the clock went back since.
local function turn_of(text)
  if not text then
    return nil
  end
  if #text ~= 8 then
    foreign()
  end
  local at = unpack_state('<d', text)
  if at % 1 ~= 0 or at < 0 or at > MAX_STORED then
    foreign()
  end
  return at <= now_us and at or nil
end

-- Forgets the nodes whose count has expired, as concurrency.lua does.
local function turn_expire(key, node, latest)
  local entries, gone, written = call('HGETALL', key), {}, {}
  local total, nodes, least, last, own = 0, 0, latest, 0, false
  for i = 1, #entries, 2 do
    local id, entry = entries[i], entries[i + 1]
    if #id == TURN_NODE then
      local epoch, count, ends = stored_numbers(entry, TURN_ENTRY, 24)
      if ends <= now_us then
        gone[#gone + 1] = id
      else
        if ends > latest then
          ends, entry = latest, pack(TURN_ENTRY, epoch, count, latest)
          written[id] = entry
        end
        if id == node then
          own = entry
        end
        total, nodes = total + count, nodes + 1
        least, last = min(least, ends), max(last, ends)
      end
    end
  end
  if nodes == 0 then
    gone[#gone + 1] = TURN_ALL
  end
  for i = 1, #gone do
    call('HDEL', key, gone[i])
  end
  for id, entry in pairs(written) do
    call('HSET', key, id, entry)
  end
  return total, nodes, least, last, own
end

-- The numbers of all nodes, and the entry of one, of the stored head and entry.
local function turn_counts(policy, key, head, entry)
  local expiry = now_us + policy.window
  if not head then
    if entry then
      foreign()
    end
    return 0, 0, 0, 0, 0, false
  end
  local total, nodes, least, last, till = turn_numbers(head, TURN_HEAD, 40)
  if least <= now_us or last > expiry then
    total, nodes, least, last, entry = turn_expire(key, policy.node, expiry)
    if nodes == 0 then
      till = 0
    else
      call('HSET', key, TURN_ALL, pack(TURN_HEAD, total, nodes, least, last, till))
    end
  end
  return total, nodes, least, last, till, entry
end

-- The numbers of a take or a state at a place of the message. Without one nothing is to be taken.
local function turn_message(given)
  local epoch, base, age = unpack_state('<ddd', ARGV[1], given)
  if age == NO_TURN then
    return epoch, base, nil
  end
  local lasts, slot, last_slot, last_age = unpack_state('<dddd', ARGV[1], given + 24)
  return epoch, base,
    {age = age, lasts = lasts, slot = slot, last_slot = last_slot, last_age = last_age}
end

-- When a turn began: as old as its node says, or at the last turn of its value on any node. Keeps
-- the last start that the node tells of.
local function turn_begins(key, turn, slot_text, last_text)
  local begins, slot_turn = max(0, now_us - turn.age), turn_of(slot_text)
  if turn.last_slot ~= NO_SLOT then
    local start, kept = max(0, now_us - turn.last_age), turn_of(last_text)
    if not kept or kept < start then
      call('HSET', key, turn_field(turn.last_slot), pack('<d', start))
      if turn.last_slot == turn.slot then
        slot_turn = start
      end
    end
  end
  if slot_turn and slot_turn > begins then
    begins = slot_turn
  end
  return begins
end

-- The claim that holds now: its turn, its node as stored and its units; no units: there is none.
local function turn_claim(text)
  if not text then
    return 0, '', 0
  end
  local begins, node, units, ends = turn_numbers(text, TURN_CLAIM, 32)
  if ends <= now_us or ends > now_us + LONGEST_CLAIM then
    return 0, '', 0
  end
  return begins, pack('<d', node), units
end

-- Decides the turn of a take beside the units of all that run. Returns whether the take is granted,
-- the age of its turn and that of another node's claim, and what its take changes.
local function turn_decide(policy, key, room, weight, turn, stored)
  local claim_begins, claim_node, claim_units = turn_claim(stored[3])
  local begins, ahead, changes = now_us, 0, nil
  if turn then
    begins = turn_begins(key, turn, stored[4], stored[5])
  end
  local is_foreign = claim_units > 0 and claim_node ~= policy.node
  if is_foreign then
    local slack = max(0, min(MOST_SLACK, floor((now_us - claim_begins) / 2)))
    if begins > claim_begins + slack then
      ahead = claim_units
    end
  end
  local granted = weight + ahead <= room
  if turn and granted then
    changes = {
      slot = turn.slot ~= NO_SLOT and turn_field(turn.slot),
      serves = claim_units > 0 and not is_foreign and turn.lasts > 0,
    }
  elseif turn and turn.lasts > 0 and (not is_foreign or begins < claim_begins) then
    local node = unpack_state('<d', policy.node)
    local ends = now_us + min(turn.lasts, LONGEST_CLAIM)
    call('HSET', key, TURN_NEXT, pack(TURN_CLAIM, begins, node, weight, ends))
    is_foreign = false
  end
  local foreign_age = 0
  if turn and room < 0 then
    foreign_age = max(1, now_us)   -- the units above the limit are owed before all turns
  elseif turn and is_foreign then
    foreign_age = max(1, now_us - claim_begins)
  end
  return granted, now_us - begins, foreign_age, changes
end

kernels[#kernels + 1] = {
  read = function(policy, message, position)
    policy.node = string.sub(message, position, position + 7)
    return position + 8
  end,

  -- Returns where the numbers of one check stand.
  given = function(message, position)
    local _, _, age = unpack_state('<ddd', message, position)
    return position, position + (age == NO_TURN and 24 or 56)
  end,

  -- Decides a take, or the state of a node: its weight is that of what is released, below 0, or 0.
  decide = function(policy, key, weight, reserve, given)
    local epoch, base, turn
    if given then
      epoch, base, turn = turn_message(given)
    end
    local stored = call('HMGET', key, TURN_ALL, policy.node, TURN_NEXT,
      turn_field(turn and turn.slot or NO_SLOT),
      turn_field(turn and turn.last_slot or NO_SLOT))
    local total, nodes, least, last, till, entry = turn_counts(policy, key, stored[1], stored[2])
    local known, count = nil, 0   -- the node's epoch and units
    if entry then
      known, count = stored_numbers(entry, TURN_ENTRY, 24)
    end
    local wait, begun = 0, count
    if given then
      if known and epoch < known then
        wait = SUPERSEDED
      elseif epoch ~= known then
        if base <= NO_BASE then   -- or NOTHING_LEFT
          wait = LOST
        else
          begun = base
        end
      end
    end
    total = total - count + begun
    local granted, turn_age, foreign_age, changes
    if wait == 0 and weight > 0 then
      granted, turn_age, foreign_age, changes =
        turn_decide(policy, key, policy.limit - total - reserve, weight, turn, stored)
      wait = granted and 0 or RUNNING_HINT
    end
    local lives, left, head = false, max(0, begun + weight), nil
    entry = nil
    if wait == 0 then
      total = total - begun + left
    end
    if wait == 0 and given then   -- else nothing is to be taken
      if left > 0 or base ~= NOTHING_LEFT then
        local expiry = now_us + policy.window
        nodes = known and nodes or nodes + 1
        least = nodes == 1 and expiry or least
        lives = till < expiry
        till = lives and expiry + policy.window or till
        head = pack(TURN_HEAD, total, nodes, least, expiry, till)
        entry = pack(TURN_ENTRY, epoch, left, expiry)
      elseif nodes > 1 then
        head = pack(TURN_HEAD, total, nodes - 1, least, last, till)
      end
    end
    local reset = turn and turn_age or total > 0 and RUNNING_HINT or 0
    return wait, max(0, policy.limit - total), reset, foreign_age or 0, head, entry, lives, changes
  end,

  -- Stores what a take or a state leaves. Without an entry the node's goes, without both all.
  take = function(policy, key, _, head, entry, lives, changes)
    if entry then
      call('HSET', key, TURN_ALL, head, policy.node, entry)
      if changes and changes.slot then
        call('HSET', key, changes.slot, pack('<d', now_us))
      end
      if changes and changes.serves then
        call('HDEL', key, TURN_NEXT)
      end
      if lives then
        call('PEXPIRE', key, string.format('%d', ceil_div(2 * policy.window, 1000) + grace))
      end
    elseif head then
      call('HDEL', key, policy.node)
      call('HSET', key, TURN_ALL, head)
    else
      call('HDEL', key, policy.node, TURN_ALL)
    end
  end,

  receipt = function()
    return 0, 0
  end,

  -- What a group of checks shares of other algorithms changes nothing here.
  refund = function() end,
  charge = function() end,
  repay = function()
    return 0
  end,
}
