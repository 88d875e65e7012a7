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

-- The stored numbers as they stand now: those of all nodes, and this node's epoch and count.
local function standing(policy, key)
  local stored = call('HMGET', key, ALL, policy.node)
  local head, own = stored[1], stored[2]
  local s = {total = 0, nodes = 0, least = 0, last = 0, till = 0, count = 0}
  if not head then
    if own then
      foreign()
    end
    return s
  end
  if #head ~= 40 then
    foreign()
  end
  local total, nodes, least, last, till = unpack_state(HEAD, head)
  if total % 1 + nodes % 1 + least % 1 + last % 1 + till % 1 ~= 0
    or min(total, nodes, least, last, till) < 0
    or max(total, nodes, least, last, till) > 2 * MAX_CHARGE then
    foreign()
  end
  s.total, s.nodes, s.least, s.last, s.till = total, nodes, least, last, till
  if s.least <= now_us or s.last > now_us + policy.window then
    s.total, s.nodes, s.least, s.last = expire(policy, key)
    if s.nodes == 0 then
      s.till = 0
      return s
    end
    call('HSET', key, ALL, pack(HEAD, s.total, s.nodes, s.least, s.last, s.till))
    own = call('HMGET', key, policy.node)[1]
  end
  if own then
    s.epoch, s.count = stored_numbers(own, ENTRY, 24)
  end
  return s
end

-- The node's count that an operation of this epoch and base begins with, or nil and why there is
-- none.
local function count_of(s, given)
  if s.epoch and given.epoch < s.epoch then
    return nil, SUPERSEDED
  elseif s.epoch and given.epoch == s.epoch then
    return s.count
  elseif given.base < 0 then
    return nil, LOST
  end
  return given.base
end

-- Stores the node's count, or removes it where it is 0 and not kept.
local function store_count(policy, key, s, count, given)
  local total, nodes = s.total - s.count + count, s.nodes
  local expiry = now_us + policy.window
  if count == 0 and given.base == NOTHING_LEFT then
    if nodes == 1 then
      call('HDEL', key, policy.node, ALL)
    else
      call('HDEL', key, policy.node)
      call('HSET', key, ALL, pack(HEAD, total, nodes - 1, s.least, s.last, s.till))
    end
    return total
  end
  if not s.epoch then
    nodes = nodes + 1
  end
  local least = s.nodes == 0 and expiry or s.least
  local till = s.till
  if till < expiry then
    till = expiry + policy.window
  end
  call('HSET', key, ALL, pack(HEAD, total, nodes, least, expiry, till),
    policy.node, pack(ENTRY, given.epoch, count, expiry))
  if till ~= s.till then
    call('PEXPIRE', key, ceil_div(till - now_us, 1000) + grace)
  end
  return total
end

local function reset_of(total)
  return total > 0 and HINT or 0
end

kernels[#kernels + 1] = {
  read = function(policy, message, position)
    local node
    node, position = unpack_state('<d', message, position)
    policy.node = pack('<d', node)
    return position
  end,

  -- Reads the numbers of one check.
  given = function(message, position)
    local epoch, base
    epoch, base, position = unpack_state('<dd', message, position)
    return {epoch = epoch, base = base}, position
  end,

  decide = function(policy, key, weight, reserve, _, given)
    local s = standing(policy, key)
    local count = s.count
    if given and weight > 0 then
      local problem
      count, problem = count_of(s, given)
      if problem then
        return problem, max(0, policy.limit - s.total), reset_of(s.total), 0
      end
    end
    local total = s.total - s.count + count
    if weight > 0 and total + weight + reserve > policy.limit then
      return HINT, max(0, policy.limit - total), reset_of(total), 0
    end
    s.given, s.next, total = given, count + weight, total + weight
    return 0, max(0, policy.limit - total), reset_of(total), 0, s
  end,

  take = function(policy, key, _, s)
    store_count(policy, key, s, s.next, s.given)
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
    local s = standing(policy, key)
    local count, problem = count_of(s, given)
    if problem then
      return problem, max(0, policy.limit - s.total)
    end
    local total = store_count(policy, key, s, max(0, count - weight), given)
    return 0, max(0, policy.limit - total)
  end,
}
