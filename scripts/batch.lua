-- batch.lua: decides a batch of independent requests in one run, last fragment of all scripts but
-- those of takes.lua.
-- A request's checks are all decided first and charged only if all of them pass. Requests follow
-- one another in order, so the same key may appear in a batch many times.
-- Names such as NEVER are of numbers in internal/redis/numbers.go, which Go puts in their places.
-- Go twin: internal/redis/message.go writes the arguments, read.go there reads the answer.
-- KEYS: one state per check, group by group, request by request.
-- ARGV: one string of little-endian doubles: number of policies; per policy: kernel (its place
--       among the script's fragments, from 1), limit, window, capacity, max_delay (or NO_QUEUE),
--       the largest debt (in 1/window units) and tick (in microseconds; the times before it count
--       in ticks); the numbers that kernels read by themselves, policy by policy; then groups of
--       requests of one shape until the end: operation, number of requests, checks per request, per
--       check: policy (from 1), weight, and, where the policy is times WITH_RESERVE, its reserve:
--       the units that must stay for others, below 0 to leave out units that are taken. A weight
--       times A_LOOK is a look: it passes as the weight would, and is not charged. Then, request by
--       request and check by check, what the operation needs beside:
--       TAKE charges the weights if all checks pass. The numbers that kernels read.
--         TAKE_WITH_RECEIPT is a take with a receipt, by which it can be changed later.
--         TAKE_AHEAD takes units ahead of their requests, at most a quarter of what remains. It
--         begins with a change of an earlier lease: units (below 0, to give back, or 0) and the
--         two numbers of its receipt. Then it decides the weight, which may be 0, and takes ahead:
--         units wanted, for how many ticks. Its functions are fragments behind the kernels.
--       PEEK charges nothing. PEEK_COUNTED counts denials for bans. ban.lua has more KEYS and ARGV.
--       CHANGE corrects what was taken, without the condition of room: units (below 0: of the
--         weight to refund, above 0: to charge), the two numbers of the receipt, and the units that
--         stay and count for bans. With OWED it adds debts of an outage up to the capacity: instant
--         and amount, see internal/kernel/kernel.go. With SHOWN it answers with the quota.
--       STATE says how much of a node runs, less the weight. The numbers that kernels read. A
--         state has one check.
-- Returns: one string of little-endian doubles: now by Redis's clock, in microseconds since the
--       Unix epoch; then, in the order of KEYS, per check: wait (0: the check passes; NEVER;
--       FAILED: its request did, see below; FAILED_HALFWAY: it did after a check of it may have
--       changed), remaining (what must stay for others included), reset after, delay (times in
--       microseconds). Behind those of TAKE_WITH_RECEIPT stand the two numbers of the receipt;
--       behind those of TAKE_AHEAD the units leased, for how many microseconds, and the two numbers
--       of the receipt; remaining is what was left before. The four numbers of a change are:
--       POSTPONED if this run has no room for the work of a refund, so that another run has to do
--       it (else 0, or that of a failure); remaining and reset after if the quota is to be shown;
--       the whole units of a debt that were added. Where requests failed, an array: that string,
--       then per failure its first key's number and the error.
-- Example: KEYS {k}, ARGV {1, 1, 10, 2000000, 10, NO_QUEUE, 2^52, 1, TAKE, 1, 1, 1, 1} as doubles,
--       in a script of fixed_window: a take of weight 1 from 10 per 2 s, at the beginning of a
--       window -> now, 0, 9, 2000000, 0 as doubles.
local message, position = ARGV[1], 1
local answers, failures = {[0] = pack('<d', now_us)}, {}
local done = 0   -- keys of the requests before the current one
local left       -- requests of the group from the current one on
local operation, checks, shape_policies, shape_weights
local shape_reserves   -- the units that must stay for others; nil: none in this shape
local shape_looks   -- which checks are looks; nil: none in this shape
local changed = false   -- a check of the current request may have changed

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

-- A kernel may have policies with numbers of their own, behind those that all have.
for i = 1, policy_count do
  if policies[i].kernel.read then
    position = policies[i].kernel.read(policies[i], message, position)
  end
end

if bans then
  position = bans.read(policies, message, position)
end

-- Converts a time in ticks to microseconds; 0 and NEVER stay what they are.
local function microseconds(policy, ticks)
  if ticks <= 0 then
    return ticks
  end
  return ticks * policy.tick - policy.offset
end

-- The common case in a loop of its own: takes of one check whose weight may pass, and states, which
-- are decided as takes of what is released, below 0.
local function takes_of_one()
  local policy, weight = shape_policies[1], shape_weights[1]
  weight = operation == STATE and -weight or weight
  local reserve = shape_reserves and shape_reserves[1] or 0
  local decide, take, read_given = policy.kernel.decide, policy.kernel.take, policy.kernel.given
  while left > 0 do
    local key, given = KEYS[done + 1], nil
    if read_given then
      given, position = read_given(message, position)
    end
    local wait, remaining, reset, delay, x, y, z, kept =
      decide(policy, key, weight, reserve, given)
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
  local givens   -- what the kernels have read of the current request, by check

  -- Reads it before anything can fail.
  local function read_givens()
    givens = {}
    if operation == TAKE or operation == TAKE_WITH_RECEIPT then
      for i = 1, checks do
        local read_given = shape_policies[i].kernel.given
        if read_given then
          givens[i], position = read_given(message, position)
        end
      end
    end
  end

  -- The units that must stay for others when check i passes.
  local function reserve_of(i)
    return shape_reserves and shape_reserves[i] or 0
  end

  -- Decides check i of the current request: wait, remaining, reset, delay and its next state.
  local function decide(i)
    local policy, weight, reserve = shape_policies[i], shape_weights[i], reserve_of(i)
    if weight > 0 and weight + reserve > policy.capacity then
      local _, remaining, reset = policy.kernel.decide(policy, KEYS[done + i], 0, reserve)
      return NEVER, remaining, reset, 0
    end
    return policy.kernel.decide(policy, KEYS[done + i], weight, reserve,
      weight > 0 and givens[i], operation == TAKE_WITH_RECEIPT)
  end

  local function answer(i, wait, remaining, reset, delay, first, second)
    local policy = shape_policies[i]
    wait, reset = microseconds(policy, wait), microseconds(policy, reset)
    delay = microseconds(policy, delay)
    if bans then
      wait, remaining, reset, delay =
        bans.show(i, shape_weights[i], wait, remaining, reset, delay)
    end
    if operation == TAKE_WITH_RECEIPT then
      answers[done + i] = pack('<dddddd', wait, remaining, reset, delay, first or 0, second or 0)
    else
      answers[done + i] = pack('<dddd', wait, remaining, reset, delay)
    end
  end

  -- Ends check i: charges it if its request passes and it is no look, else answers with the state
  -- as it is.
  local function finish(i, passes, wait, remaining, reset, delay, x, y, z, kept)
    local policy, weight = shape_policies[i], shape_weights[i]
    if weight == 0 or wait ~= 0 then
      answer(i, wait, remaining, reset, 0)
    elseif passes and not (shape_looks and shape_looks[i]) then
      policy.kernel.take(policy, KEYS[done + i], reset, x, y, z, kept)
      changed = true
      answer(i, wait, remaining, reset, delay, policy.kernel.receipt(x, y, z))
    else
      local _, rest, ends = policy.kernel.decide(policy, KEYS[done + i], 0, reserve_of(i))
      answer(i, wait, rest, ends, operation == PEEK and delay or 0)
    end
  end

  local function request()
    local decided, counts = {}, operation ~= PEEK
    local passes = counts and operation ~= PEEK_COUNTED
    read_givens()
    for i = 1, checks do
      decided[i] = {decide(i)}
      local wait = decided[i][1]
      passes, counts = passes and wait == 0, counts and wait >= NEVER   -- else it is sent again
    end
    if bans then
      passes = bans.judge(counts, shape_policies, shape_weights, shape_reserves, decided,
        passes, done)
    end
    for i = 1, checks do
      finish(i, passes, unpack(decided[i], 1, 8))
    end
  end

  -- Reads so many numbers of each check before anything can fail.
  local function read_numbers(each)
    local numbers = {}
    for i = 1, each * checks do
      numbers[i], position = unpack_state('<d', message, position)
    end
    return numbers
  end

  -- Raises the error of a check that cannot be decided now, before another one or a ban changes.
  local function verify()
    for i = 1, (checks > 1 or bans) and checks or 0 do
      local policy = shape_policies[i]
      if policy.kernel.verify then
        policy.kernel.verify(policy, KEYS[done + i])
      end
    end
  end

  -- Changes check i. Only a refund may be postponed, and nothing is changed then.
  local function change_one(i, units, first, second, stays)
    local policy, key = shape_policies[i], KEYS[done + i]
    local kernel = policy.kernel
    if units < 0 and kernel.refund(policy, key, shape_weights[i], -units, first, second) then
      answers[done + i] = pack('<dddd', POSTPONED, 0, 0, 0)
      return
    end
    if stays > 0 then
      bans.confirm(i, policy, stays, done)
      changed = true
    end
    if units > 0 then
      kernel.charge(policy, key, units)
    end
    local remaining, reset, _ = 0, 0, nil
    if operation >= SHOWN then
      _, remaining, reset = kernel.decide(policy, key, 0, 0)
    end
    answers[done + i] = pack('<dddd', 0, remaining, microseconds(policy, reset), 0)
  end

  -- Adds the debt of check i, up to the capacity.
  local function add_owed(i, instant, amount)
    local policy = shape_policies[i]
    local units = policy.kernel.repay(policy, KEYS[done + i], instant, amount)
    answers[done + i] = pack('<dddd', 0, 0, 0, units)
  end

  local function change()
    local owed = operation % (2 * OWED) >= OWED
    local each = owed and 2 or 4
    local numbers = read_numbers(each)
    verify()
    for i = 1, checks do
      local apply = owed and add_owed or change_one
      apply(i, unpack(numbers, each * (i - 1) + 1, each * i))
      changed = true
    end
  end

  -- Changes an earlier lease, decides the weight, which may be 0, and takes units ahead.
  local function take_ahead()
    local numbers = read_numbers(5)
    for i = 1, checks do
      local policy, key = shape_policies[i], KEYS[done + i]
      local weight, reserve = shape_weights[i], reserve_of(i)
      local units_changed, first, second, want, lasts = unpack(numbers, 5 * i - 4, 5 * i)
      local longest = min(floor(policy.window / 100), floor(1000000 / policy.tick))
      if units_changed < 0 then
        policy.kernel.give_back(policy, key, -units_changed, longest, first, second)
        changed = true
      end
      lasts = min(lasts, longest)
      local wait, remaining, reset, units, _
      if weight > 0 and weight + reserve > policy.capacity then
        _, remaining, reset = policy.kernel.decide(policy, key, 0, reserve)
        wait, units = NEVER, 0
      else
        wait, remaining, reset, units, lasts, first, second =
          policy.kernel.lease(policy, key, weight, reserve, lasts > 0 and want or 0, lasts)
      end
      if units == 0 then
        lasts, first, second = 0, 0, 0
      end
      answers[done + i] = pack('<dddddddd', microseconds(policy, wait), remaining,
        microseconds(policy, reset), 0, units, microseconds(policy, lasts), first, second)
    end
  end

  return function()
    while left > 0 do
      if operation % OPERATIONS == CHANGE then
        change()
      elseif operation == TAKE_AHEAD then
        take_ahead()
      else
        request()
      end
      done, left, changed = done + checks, left - 1, false
    end
  end
end

-- Answers the current request, which failed with an error, and goes on to the next one.
local function fail(problem)
  failures[#failures + 1] = floor(done + 1)   -- Lua 5.4: the reply takes no float
  failures[#failures + 1] = type(problem) == 'table' and problem.err or problem
  local wait = changed and FAILED_HALFWAY or FAILED
  for i = 1, checks do
    answers[done + i] = pack('<dddd', wait, 0, 0, 0)
    if operation == TAKE_WITH_RECEIPT then
      answers[done + i] = pack('<dddddd', wait, 0, 0, 0, 0, 0)
    elseif operation == TAKE_AHEAD then
      answers[done + i] = pack('<dddddddd', wait, 0, 0, 0, 0, 0, 0, 0)
    end
  end
  done, left, changed = done + checks, left - 1, false
end

local others
while position <= #message do
  operation, left, checks, position = unpack_state('<ddd', message, position)
  shape_policies, shape_weights, shape_reserves, shape_looks = {}, {}, nil, nil
  for i = 1, checks do
    local number
    number, shape_weights[i], position = unpack_state('<dd', message, position)
    if shape_weights[i] < 0 then
      shape_weights[i], shape_looks = A_LOOK * shape_weights[i], shape_looks or {}
      shape_looks[i] = true
    end
    if number < 0 then
      number, shape_reserves = WITH_RESERVE * number, shape_reserves or {}
      shape_reserves[i], position = unpack_state('<d', message, position)
    end
    shape_policies[i] = policies[number]
  end
  local run, group_bans = takes_of_one, bans and bans.begin(shape_policies, left, done)
  if operation ~= STATE and (operation ~= TAKE or checks > 1 or group_bans or shape_looks
    or shape_weights[1] == 0 or shape_weights[1] + (shape_reserves and shape_reserves[1] or 0)
      > shape_policies[1].capacity) then
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
table.insert(failures, 1, answer)
return failures
