-- takes.lua: decides batches of takes, which are most batches: requests of one policy or of
-- several, with looks. batch.lua does the same, and everything else.
-- A run costs as much as some decisions, most of it for closures and tables. This script has no
-- closure but `run`. scripts/takes.go makes it for a set of kernels: `decide` and `take` stand in
-- place of their calls, and a policy's numbers are locals: policy_limit for policy.limit. Of the
-- lines between two marks such as "-- <one kernel" and "-- one kernel>" a script has
--   one kernel      those in scripts of one kernel alone
--   several checks  none in that of concurrency, whose requests meet no other policy
--   each kernel     those of each of its kernels, chosen by the local `kernel`
-- and of the lines that end in "only" and a kernel those of its own kernels. The lines between
-- "-- <each check" and "-- each check>" are there once a check, with check_number and, for example,
-- wait_of_1 for wait_n. calendar_place is that kernel's place among the script's.
-- Go twin: writePolicies in internal/redis/message.go chooses between the scripts.
-- KEYS: one state per check.
-- ARGV: as for batch.lua: policies that do not ban, and groups of TAKE; for concurrency of one
--       check, whose weight may pass, and of STATE.
-- Returns: as batch.lua.
-- Example: that of batch.lua.
local answers, failures = {struct.pack('<d', now_us)}, nil
-- Of the current request: how many it has, and whether one of them may have changed.
local checks, changed = 1, false

-- Answers the requests that have no answer yet. Arguments cost less than upvalues.
local function run(now_us, grace, answers, KEYS, ARGV)
  -- The prelude and the kernels.
  local message, last = ARGV[1], 0
  local policies = unpack_state('<d', message)
  local position = 9 + 56 * policies
  position = position + 8 * policies   -- only concurrency
  local starts = {}   -- only calendar
  for i = 1, policies do   -- only calendar
    if unpack_state('<d', message, 56 * i - 47) == calendar_place then   -- only calendar
      starts[i], position = position, position + 32   -- only calendar
    end   -- only calendar
  end   -- only calendar
  while position <= #message do
    local operation, count, begins
    operation, count, checks, begins = unpack_state('<ddd', message, position)
    local plain = true   -- takes of one check whose weight may pass, and states
    -- <several checks
    plain = false
    -- several checks>
    -- <one kernel
    local number, weight, reserve
    number, weight, position = unpack_state('<dd', message, begins)
    weight = operation == STATE and -weight or weight   -- only concurrency
    reserve = 0
    if number < 0 then
      number = WITH_RESERVE * number
      reserve, position = unpack_state('<d', message, position)
    end
    local policy_limit, policy_window, policy_capacity, policy_max_delay, policy_max_debt,
      policy_tick = unpack_state('<dddddd', message, 56 * number - 39)
    -- <several checks
    plain = checks == 1 and weight > 0 and weight + reserve <= policy_capacity
    -- several checks>
    if plain then
      local first = position - 16 * (last + 1)   -- only concurrency
      position = position + 16 * count   -- only concurrency
      last = last + count
      local policy_offset = now_us % policy_tick
      local policy_now = (now_us - policy_offset) / policy_tick
      local policy_index = (policy_now - policy_now % policy_window) / policy_window
      local policy_volume = policy_capacity * policy_window
      local policy_full = ceil_div(policy_volume, policy_limit)
      local nodes = 56 * policies + 8 * number   -- only concurrency
      local policy_node = string.sub(message, nodes + 1, nodes + 8)   -- only concurrency
      local period_at = starts[number]   -- only calendar
      local policy_starts, policy_period, policy_shortest =   -- only calendar
        read_periods(message, period_at, policy_now)   -- only calendar
      for i = #answers, last do
        local key = KEYS[i]
        local at = first + 16 * i   -- only concurrency
        local wait, remaining, reset, delay, x, y, z, kept =
          decide(policy, key, weight, reserve, at)
        if wait == 0 then
          take(policy, key, reset, x, y, z, kept)
        end
        if policy_tick ~= 1 then
          wait = wait > 0 and wait * policy_tick - policy_offset or wait
          reset = reset > 0 and reset * policy_tick - policy_offset or reset
          delay = delay > 0 and delay * policy_tick - policy_offset or delay
        end
        answers[i + 1] = pack('<dddd', wait, remaining, reset, delay)
      end
    end
    -- one kernel>
    -- <several checks
    if not plain then
      position = begins
      local looks = false
      -- <each check
      local number_n, weight_n, reserve_n, charged_n = 1, 0, 0, false
      if checks >= check_number then
        number_n, weight_n, position = unpack_state('<dd', message, position)
        charged_n = weight_n > 0
        if weight_n < 0 then
          weight_n, looks = A_LOOK * weight_n, true
        end
        if number_n < 0 then
          number_n = WITH_RESERVE * number_n
          reserve_n, position = unpack_state('<d', message, position)
        end
      end
      local kernel_n, policy_limit_n, policy_window_n, policy_capacity_n, policy_max_delay_n,
        policy_max_debt_n, policy_tick_n = unpack_state('<ddddddd', message, 56 * number_n - 47)
      local policy_offset_n = now_us % policy_tick_n
      local policy_now_n = (now_us - policy_offset_n) / policy_tick_n
      local policy_index_n = (policy_now_n - policy_now_n % policy_window_n) / policy_window_n
      local policy_volume_n = policy_capacity_n * policy_window_n
      local policy_full_n = ceil_div(policy_volume_n, policy_limit_n)
      local policy_starts_n, policy_period_n, policy_shortest_n   -- only calendar
      do   -- only calendar
        local period_at = kernel_n == calendar_place and starts[number_n] or 1   -- only calendar
        policy_starts_n, policy_period_n, policy_shortest_n =   -- only calendar
          read_periods(message, period_at, policy_now_n)   -- only calendar
      end   -- only calendar
      local fits_n = weight_n == 0 or weight_n + reserve_n <= policy_capacity_n
      if not fits_n then
        weight_n, charged_n = 0, false
      end
      -- each check>
      last = last + count * checks
      for i = #answers, last, checks do
        -- <each check
        local key_n = KEYS[i + check_number - 1]
        local wait_n, remaining_n, reset_n, delay_n, x_n, y_n, z_n, kept_n
        -- each check>
        -- Decides all checks, and those once more without their weight that pass and are not
        -- charged: their answers show the state as it is.
        local passes, again = true, false
        repeat
          -- <each check
          if checks >= check_number
            and (not again or wait_n == 0 and weight_n > 0 and not (passes and charged_n)) then
            local units = again and 0 or weight_n
            -- <each kernel
            wait_n, remaining_n, reset_n, delay_n, x_n, y_n, z_n, kept_n =
              decide(policy, key_n, units, reserve_n)
            -- each kernel>
            if not fits_n then
              wait_n = NEVER
            end
            passes = passes and wait_n == 0
          end
          -- each check>
          again = not again and (looks or not passes)
        until not again
        if passes then
          -- <each check
          if charged_n then
            -- <each kernel
            take(policy, key_n, reset_n, x_n, y_n, z_n, kept_n)
            -- each kernel>
            changed = true
          end
          -- each check>
          changed = false
        end
        -- <each check
        if checks >= check_number then
          if policy_tick_n ~= 1 then
            wait_n = wait_n > 0 and wait_n * policy_tick_n - policy_offset_n or wait_n
            reset_n = reset_n > 0 and reset_n * policy_tick_n - policy_offset_n or reset_n
            delay_n = delay_n > 0 and delay_n * policy_tick_n - policy_offset_n or delay_n
          end
          answers[i + check_number] = pack('<dddd', wait_n, remaining_n, reset_n, delay_n)
        end
        -- each check>
      end
    end
    -- several checks>
  end
end

while true do
  local ok, problem = pcall(run, now_us, grace, answers, KEYS, ARGV)
  if ok then
    break
  end
  failures = failures or {}
  failures[#failures + 1] = #answers
  failures[#failures + 1] = type(problem) == 'table' and problem.err or problem
  local wait = changed and FAILED_HALFWAY or FAILED
  for _ = 1, checks do
    answers[#answers + 1] = struct.pack('<dddd', wait, 0, 0, 0)
  end
  changed = false
end

local answer = table.concat(answers)
if not failures then
  return answer
end
table.insert(failures, 1, answer)
return failures
