-- concurrency.lua: counts the units of the requests that run, for each node that runs them.
-- Go twin: internal/redis/running_model_test.go
-- What a node sends, and why: internal/redis/record.go
-- KEYS: one state, a hash. Its field `all` is a string of five doubles: units of all nodes, number
--       of nodes, a lower bound of when the count of one expires, the last such instant, and until
--       when the key lives. A field per node, named by its ID, is a string of three: epoch, units,
--       when they expire. Instants are microseconds since the Unix epoch.
-- ARGV: per policy: the ID of this node. Per request and check of a take and a state:
--       the epoch that the node sends it in, and its base: the units that Redis begins with where
--       it does not know the epoch; NO_BASE, because an answer has shown that it does; or
--       NOTHING_LEFT: no base, and the node's entry goes where no unit is left. The weight of a
--       state is the units that are released before.
-- Returns: besides those of every kernel the wait SUPERSEDED for a node whose epoch is over, and
--       LOST for one that Redis does not know and that has no base: nothing is charged.
-- Example: limit 20, nothing stored, a take of weight 1 in epoch 1 with base 0 -> wait 0, remaining
--       19.
local ALL, ENTRY, HEAD = 'all', '<ddd', '<ddddd'
local arguments = ARGV[1]
local stored_key, stored_head, stored_entry   -- the last that this run has stored
local lives_window, lives_text = 0, ''   -- of the last key that has to live for longer

-- Forgets the nodes whose count has expired. Where the clock went back it shortens the time of the
-- others. Returns the numbers as they stand then, and the entry of a node.
local function expire(key, node, latest)
  local entries, gone, written = call('HGETALL', key), {}, {}
  local total, nodes, least, last, own = 0, 0, latest, 0, false
  for i = 1, #entries, 2 do
    local id, entry = entries[i], entries[i + 1]
    if id ~= ALL then
      local epoch, count, ends = stored_numbers(entry, ENTRY, 24)
      if ends <= now_us then
        gone[#gone + 1] = id
      else
        if ends > latest then
          ends, entry = latest, pack(ENTRY, epoch, count, latest)
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
    gone[#gone + 1] = ALL
  end
  for i = 1, #gone do
    call('HDEL', key, gone[i])
  end
  for id, entry in pairs(written) do
    call('HSET', key, id, entry)
  end
  return total, nodes, least, last, own
end

-- Decides a take, or the state of a node: its weight is that of the units released, below 0, or 0.
-- Without the place of its two numbers in the message nothing is to be taken.
local function decide(policy, key, weight, reserve, given)
  local limit, node, expiry = policy.limit, policy.node, now_us + policy.window
  local head, entry = stored_head, stored_entry
  if key ~= stored_key then
    local stored = call('HMGET', key, ALL, node)
    head, entry = stored[1], stored[2]
  end
  local total, nodes, least, last, till = 0, 0, 0, 0, 0
  if head then
    if #head ~= 40 then
      foreign()
    end
    total, nodes, least, last, till = unpack_state(HEAD, head)
    if total % 1 + nodes % 1 + least % 1 + last % 1 + till % 1 ~= 0
      or total < 0 or nodes < 0 or least < 0 or last < 0 or till < 0
      or total > MAX_STORED or nodes > MAX_STORED or least > MAX_STORED or last > MAX_STORED
      or till > MAX_STORED then
      foreign()
    end
    if least <= now_us or last > expiry then
      total, nodes, least, last, entry = expire(key, node, expiry)
      if nodes == 0 then
        till = 0
      else
        call('HSET', key, ALL, pack(HEAD, total, nodes, least, last, till))
      end
    end
  elseif entry then
    foreign()
  end
  local known, count = nil, 0   -- the node's epoch and units
  if entry then
    known, count = stored_numbers(entry, ENTRY, 24)
  end

  local wait, epoch, base, begun = 0, nil, 0, count
  if given then
    epoch, base = unpack_state('<dd', arguments, given)
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
  if wait == 0 and weight > 0 and total + weight + reserve > limit then
    wait = RUNNING_HINT
  end
  local lives, left = false, begun + weight
  if left < 0 then
    left = 0
  end
  if wait == 0 then
    total = total - begun + left
  end
  if wait == 0 and epoch then   -- else nothing is to be taken
    head, entry = nil, nil
    if left > 0 or base ~= NOTHING_LEFT then
      nodes = known and nodes or nodes + 1
      least = nodes == 1 and expiry or least
      lives = till < expiry
      till = lives and expiry + policy.window or till
      head, entry = pack(HEAD, total, nodes, least, expiry, till), pack(ENTRY, epoch, left, expiry)
    elseif nodes > 1 then
      head = pack(HEAD, total, nodes - 1, least, last, till)
    end
  end
  local remaining = total < limit and limit - total or 0
  local reset = total > 0 and RUNNING_HINT or 0
  return wait, remaining, reset, 0, head, entry, lives
end

-- Stores what a take or a state leaves. Without an entry the node's goes, without both all.
local function take(policy, key, _, head, entry, lives)
  stored_key = nil
  if entry then
    call('HSET', key, ALL, head, policy.node, entry)
    stored_key, stored_head, stored_entry = key, head, entry
    if lives then
      if lives_window ~= policy.window then   -- Redis formats a number for longer
        lives_window = policy.window
        lives_text = string.format('%d', ceil_div(2 * policy.window, 1000) + grace)
      end
      call('PEXPIRE', key, lives_text)
    end
  elseif head then
    call('HDEL', key, policy.node)
    call('HSET', key, ALL, head)
  else
    call('HDEL', key, policy.node, ALL)
  end
end
