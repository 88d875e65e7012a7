-- concurrency.lua: counts the units of the requests that run, for each node that runs them.
-- Go twin: limiter/failover/running_model_test.go
-- What a node sends, and why: limiter/internal/running/record.go
-- KEYS: one state, a hash. Its field `all` is a string of five doubles: units of all nodes, number
--       of nodes, a lower bound of when the count of one expires, the last such instant, and until
--       when the key lives. A field per node, named by its ID, is a string of three: epoch, units,
--       when they expire. Instants are microseconds since the Unix epoch.
-- ARGV: per policy: the ID of this node. Per request and check of a take and a state:
--       the epoch that the node sends it in, and its base: the units that Redis begins with where
--       it does not know the epoch; -1: none, because an answer has shown that it does; -2: none,
--       and the node's entry goes where no unit is left. The weight of a state is the units that
--       are released before.
-- Returns: besides those of every kernel the wait -4 for a node whose epoch is over (superseded),
--       and -5 for one that Redis does not know and that has no base (lost): nothing is charged.
-- Example: limit 20, nothing stored, a take of weight 1 in epoch 1 with base 0 -> wait 0, remaining
--       19.
local ALL, ENTRY, HEAD = 'all', '<ddd', '<ddddd'
local SUPERSEDED, LOST, HINT = -4, -5, 1000000
local NOTHING_LEFT = -2   -- a base
local arguments = ARGV[1]

-- Forgets the nodes whose count has expired. Where the clock went back it shortens the time of the
-- others.
local function expire(policy, key)
  local entries, latest = call('HGETALL', key), now_us + policy.window
  local gone, written = {}, {}
  local total, nodes, least, last = 0, 0, latest, 0
  for i = 1, #entries, 2 do
    if entries[i] ~= ALL then
      local epoch, count, expiry = stored_numbers(entries[i + 1], ENTRY, 24)
      if expiry <= now_us then
        gone[#gone + 1] = entries[i]
      else
        if expiry > latest then
          expiry = latest
          written[#written + 1] = entries[i]
          written[#written + 1] = pack(ENTRY, epoch, count, expiry)
        end
        total, nodes = total + count, nodes + 1
        least, last = min(least, expiry), max(last, expiry)
      end
    end
  end
  if nodes == 0 then
    gone[#gone + 1] = ALL
  end
  for i = 1, #gone, 1000 do
    call('HDEL', key, unpack(gone, i, min(i + 999, #gone)))
  end
  for i = 1, #written, 1000 do
    call('HSET', key, unpack(written, i, min(i + 999, #written)))
  end
  return total, nodes, least, last
end

-- Returns the stored numbers as they stand now: units of all nodes, number of nodes, when the first
-- and the last of their counts expire, until when the key lives, and this node's count and epoch.
-- Without an epoch Redis has no entry of it.
local function standing(policy, key)
  local stored = call('HMGET', key, ALL, policy.node)
  local head, own = stored[1], stored[2]
  if not head then
    if own then
      foreign()
    end
    return 0, 0, 0, 0, 0, 0
  elseif #head ~= 40 then
    foreign()
  end
  local total, nodes, least, last, till = unpack_state(HEAD, head)
  if total % 1 + nodes % 1 + least % 1 + last % 1 + till % 1 ~= 0
    or min(total, nodes, least, last, till) < 0
    or max(total, nodes, least, last, till) > 2 * MAX_CHARGE then
    foreign()
  end
  if least <= now_us or last > now_us + policy.window then
    total, nodes, least, last = expire(policy, key)
    if nodes == 0 then
      return 0, 0, 0, 0, 0, 0
    end
    call('HSET', key, ALL, pack(HEAD, total, nodes, least, last, till))
    own = call('HMGET', key, policy.node)[1]
  end
  if not own then
    return total, nodes, least, last, till, 0
  end
  local epoch, count = stored_numbers(own, ENTRY, 24)
  return total, nodes, least, last, till, count, epoch
end

-- The node's count that an operation of this epoch and base begins with, or nil and why there is
-- none.
local function count_of(count, own, epoch, base)
  if own and epoch < own then
    return nil, SUPERSEDED
  elseif own and epoch == own then
    return count
  elseif base < 0 then
    return nil, LOST
  end
  return base
end

-- Returns the fields with the node's entry, and whether the key has to live for longer.
local function with_entry(policy, total, nodes, least, till, own, epoch, count)
  local expiry, lives = now_us + policy.window, false
  if nodes == 0 then
    least = expiry
  end
  if not own then
    nodes = nodes + 1
  end
  if till < expiry then
    till, lives = expiry + policy.window, true
  end
  return pack(HEAD, total, nodes, least, expiry, till), pack(ENTRY, epoch, count, expiry), lives
end

local function store(policy, key, head, entry, lives)
  call('HSET', key, ALL, head, policy.node, entry)
  if lives then
    call('PEXPIRE', key, policy.lives)
  end
end

local function reset_of(total)
  return total > 0 and HINT or 0
end

kernels[#kernels + 1] = {
  read = function(policy, message, position)
    local node
    node, position = unpack_state('<d', message, position)
    policy.node = pack('<d', node)
    policy.lives = string.format('%d', ceil_div(2 * policy.window, 1000) + grace)
    return position
  end,

  -- Returns where the numbers of one check stand.
  given = function(_, position)
    return position, position + 16
  end,

  decide = function(policy, key, weight, reserve, _, given)
    local total, nodes, least, _, till, count, own = standing(policy, key)
    local epoch, base
    if given and weight > 0 then
      epoch, base = unpack_state('<dd', arguments, given)
      local begun, problem = count_of(count, own, epoch, base)
      if problem then
        return problem, max(0, policy.limit - total), reset_of(total), 0
      end
      total, count = total - count + begun, begun
    end
    if weight > 0 and total + weight + reserve > policy.limit then
      return HINT, max(0, policy.limit - total), reset_of(total), 0
    end
    total = total + weight
    if not epoch then   -- nothing is to be taken
      return 0, max(0, policy.limit - total), reset_of(total), 0
    end
    return 0, max(0, policy.limit - total), reset_of(total), 0,
      with_entry(policy, total, nodes, least, till, own, epoch, count + weight)
  end,

  take = function(policy, key, _, head, entry, lives)
    store(policy, key, head, entry, lives)
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

  -- States the node's count less the units released. Returns a wait and what remains.
  state = function(policy, key, weight, given)
    local total, nodes, least, last, till, count, own = standing(policy, key)
    local epoch, base = unpack_state('<dd', arguments, given)
    local begun, problem = count_of(count, own, epoch, base)
    if problem then
      return problem, max(0, policy.limit - total)
    end
    local left = max(0, begun - weight)
    total = total - count + left
    if left > 0 or base ~= NOTHING_LEFT then
      store(policy, key, with_entry(policy, total, nodes, least, till, own, epoch, left))
    elseif nodes == 1 then
      call('HDEL', key, policy.node, ALL)
    else
      call('HDEL', key, policy.node)
      call('HSET', key, ALL, pack(HEAD, total, nodes - 1, least, last, till))
    end
    return 0, max(0, policy.limit - total)
  end,
}
