-- batch.lua: decides a batch of independent requests in one run, last fragment of every script.
-- A request's checks are all decided first and charged only if all of them pass. Requests follow
-- one another in order, so the same key may appear in a batch many times.
-- Go twin: limiter/wire.go writes the arguments, limiter/wire_read.go reads the answer.
-- KEYS: one state per check, group by group, request by request.
-- ARGV: one string of little-endian doubles: number of policies; per policy: kernel (its place
--       among the script's fragments, from 1), limit, window, capacity, max_delay (-1: none), the
--       largest debt (in 1/window units) and tick (in microseconds; the times before it count in
--       ticks); then groups of requests of one shape until the end: operation (1 take, 2 peek, 3
--       reserve, 4 refund, 5 charge, 6 settle, 7 offend, 8 confirm), number of requests, checks per
--       request, per check: policy (from 1), weight, and, where the policy is negated, the units
--       that must stay for others; for a refund, per request and check: the two numbers of its
--       receipt; to settle: instant and amount of a debt, see limiter/algorithm.go. A peek charges
--       nothing; a reserve is a take with a receipt; a charge is a take that needs no room; settle
--       adds what was admitted while this Redis did not decide, up to the capacity. Where a policy
--       bans, ban.lua has more KEYS and ARGV: an offend is a peek that counts denials, a confirm
--       counts units that were reserved and stay. Refunds, charges, settlements and confirms are
--       answered with zeros, but for the units settled as remaining.
-- Returns: one string of little-endian doubles: now by Redis's clock, in microseconds since the
--       Unix epoch; then, in the order of KEYS, per check: wait (0: the check passes, -1: it never
--       will, -2: this request failed, see below), remaining (what must stay for others included),
--       reset after, delay (times in microseconds), and for a reserve the two numbers of the
--       receipt. A wait above 0 postpones a refund: this run has no room for the work, another one
--       has. Where requests failed, an array: that string, then per failure its first key's number
--       and the error.
-- Example: KEYS {k}, ARGV {1, 1, 10, 2000000, 10, -1, 2^52, 1, 1, 1, 1, 1, 1} as doubles, in a
--       script of fixed_window: a take of weight 1 from 10 per 2 s, at the beginning of a window
--       -> now, 0, 9, 2000000, 0 as doubles.
local TAKE, PEEK, RESERVE, REFUND, CHARGE = 1, 2, 3, 4, 5
local SETTLE, OFFEND, CONFIRM = 6, 7, 8
local message, position = ARGV[1], 1
local answers, failures = {[0] = pack('<d', now_us)}, {}
local done = 0   -- keys of the requests before the current one
local left       -- requests of the group from the current one on
local operation, checks, shape_policies, shape_weights
local shape_leaves   -- nil where no check leaves units to others

local policies, policy_count = {}
policy_count, position = unpack_state('<d', message, position)
for i = 1, policy_count do
  local kernel, limit, window, capacity, max_delay, max_debt, tick
  kernel, limit, window, capacity, max_delay, max_debt, tick, position =
    unpack_state('<ddddddd', message, position)
  local now = floor(now_us / tick)
  policies[i] = {
    kernel = kernels[kernel], limit = limit, window = window, capacity = capacity,
    max_delay = max_delay, max_debt = max_debt, tick = tick, now = now, offset = now_us % tick,
    index = floor(now / window), volume = capacity * window,
    full = ceil_div(capacity * window, limit),
  }
end

if bans then
  position = bans.read(policies, message, position)
end

-- Converts a time in ticks to microseconds; 0 and -1 stay what they are.
local function microseconds(policy, ticks)
  if ticks <= 0 then
    return ticks
  end
  return ticks * policy.tick - policy.offset
end

-- The common case in a loop of its own: takes of one check whose weight may pass.
local function takes_of_one()
  local policy, weight = shape_policies[1], shape_weights[1]
  local leave = shape_leaves and shape_leaves[1] or 0
  local decide, take = policy.kernel.decide, policy.kernel.take
  while left > 0 do
    local key = KEYS[done + 1]
    local wait, remaining, reset, delay, x, y, z, kept = decide(policy, key, weight, leave)
    if wait == 0 then
      take(policy, key, reset, x, y, z, kept)
    end
    if policy.tick ~= 1 then
      wait, reset = microseconds(policy, wait), microseconds(policy, reset)
      delay = microseconds(policy, delay)
    end
    done, left = done + 1, left - 1
    answers[done] = pack('<dddd', wait, remaining, reset, delay)
  end
end

-- Makes the function that runs any other group. A run without such a group does not define it,
-- because that takes as long as a few decisions.
local function make_others()
  -- The units that check i leaves to others.
  local function leave_of(i)
    return shape_leaves and shape_leaves[i] or 0
  end

  -- Decides check i of the current request: wait, remaining, reset, delay and its next state.
  local function decide(i)
    local policy, weight, leave = shape_policies[i], shape_weights[i], leave_of(i)
    if weight > 0 and weight + leave > policy.capacity then
      local _, remaining, reset = policy.kernel.decide(policy, KEYS[done + i], 0, leave)
      return -1, remaining, reset, 0
    end
    return policy.kernel.decide(policy, KEYS[done + i], weight, leave, operation == RESERVE)
  end

  local function answer(i, wait, remaining, reset, delay, first, second)
    local policy = shape_policies[i]
    wait, reset = microseconds(policy, wait), microseconds(policy, reset)
    delay = microseconds(policy, delay)
    if bans then
      wait, remaining, reset, delay =
        bans.show(i, shape_weights[i], wait, remaining, reset, delay)
    end
    if operation == RESERVE then
      answers[done + i] = pack('<dddddd', wait, remaining, reset, delay, first or 0, second or 0)
    else
      answers[done + i] = pack('<dddd', wait, remaining, reset, delay)
    end
  end

  -- Ends check i: charges it if its request passes, else answers with the state as it is.
  local function finish(i, passes, wait, remaining, reset, delay, x, y, z, kept)
    local policy, weight = shape_policies[i], shape_weights[i]
    if weight == 0 or wait ~= 0 then
      answer(i, wait, remaining, reset, 0)
    elseif passes then
      policy.kernel.take(policy, KEYS[done + i], reset, x, y, z, kept)
      answer(i, wait, remaining, reset, delay, policy.kernel.receipt(x, y, z))
    else
      local _, rest, ends = policy.kernel.decide(policy, KEYS[done + i], 0, leave_of(i))
      answer(i, wait, rest, ends, operation == PEEK and delay or 0)
    end
  end

  local function request()
    local decided, passes = {}, operation ~= PEEK and operation ~= OFFEND
    for i = 1, checks do
      decided[i] = {decide(i)}
      passes = passes and decided[i][1] == 0
    end
    if bans then
      passes = bans.judge(operation ~= PEEK, shape_policies, shape_weights, shape_leaves, decided,
        passes, done)
    end
    for i = 1, checks do
      finish(i, passes, unpack(decided[i], 1, 8))
    end
  end

  -- Reads the two numbers of each check before anything can fail.
  local function read_pairs()
    local numbers = {}
    for i = 1, 2 * checks do
      numbers[i], position = unpack_state('<d', message, position)
    end
    return numbers
  end

  local function refund()
    local receipts = read_pairs()
    for i = 1, checks do
      local policy = shape_policies[i]
      answer(i, 0, 0, 0, 0)
      local postponed = policy.kernel.refund(policy, KEYS[done + i], shape_weights[i],
        receipts[2 * i - 1], receipts[2 * i])
      if postponed then
        answer(i, 1, 0, 0, 0)
      end
    end
  end

  local function charge()
    for i = 1, checks do
      local policy = shape_policies[i]
      answer(i, 0, 0, 0, 0)
      policy.kernel.charge(policy, KEYS[done + i], shape_weights[i])
    end
  end

  local function settle()
    local debts = read_pairs()
    for i = 1, checks do
      local policy = shape_policies[i]
      answer(i, 0, 0, 0, 0)
      local units = policy.kernel.settle(policy, KEYS[done + i], debts[2 * i - 1], debts[2 * i])
      answer(i, 0, units, 0, 0)
    end
  end

  return function()
    while left > 0 do
      if operation == REFUND then
        refund()
      elseif operation == CHARGE then
        charge()
      elseif operation == SETTLE then
        settle()
      elseif operation == CONFIRM then
        for i = 1, checks do
          answer(i, 0, 0, 0, 0)
          bans.confirm(i, shape_policies[i], shape_weights[i], done)
        end
      else
        request()
      end
      done, left = done + checks, left - 1
    end
  end
end

-- Answers the current request, which failed with an error, and goes on to the next one.
local function fail(problem)
  failures[#failures + 1] = done + 1
  failures[#failures + 1] = type(problem) == 'table' and problem.err or problem
  for i = 1, checks do
    answers[done + i] = pack('<dddd', -2, 0, 0, 0)
    if operation == RESERVE then
      answers[done + i] = pack('<dddddd', -2, 0, 0, 0, 0, 0)
    end
  end
  done, left = done + checks, left - 1
end

local others
while position <= #message do
  operation, left, checks, position = unpack_state('<ddd', message, position)
  shape_policies, shape_weights, shape_leaves = {}, {}, nil
  for i = 1, checks do
    local number
    number, shape_weights[i], position = unpack_state('<dd', message, position)
    if number < 0 then
      number, shape_leaves = -number, shape_leaves or {}
      shape_leaves[i], position = unpack_state('<d', message, position)
    end
    shape_policies[i] = policies[number]
  end
  local run, group_bans = takes_of_one, bans and bans.begin(shape_policies, left, done)
  if operation ~= TAKE or checks > 1 or group_bans or shape_weights[1] == 0
    or shape_weights[1] + (shape_leaves and shape_leaves[1] or 0) > shape_policies[1].capacity then
    others = others or make_others()
    run = others
  end
  while left > 0 do
    local ok, problem = pcall(run)
    if not ok then
      fail(problem)
    end
  end
end

local answer = table.concat(answers, '', 0)
if #failures == 0 then
  return answer
end
return {answer, unpack(failures)}
