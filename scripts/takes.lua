-- takes.lua: decides a batch of takes of one check each, which is what most batches are. batch.lua
-- does the same, and everything else.
-- A run costs as much as some decisions, most of it for closures and tables. This script has none
-- but `run`. go generate sets the prelude and one kernel into it, `decide` and `take` in place of
-- their calls, and a policy's numbers as locals: policy_limit for policy.limit. A line that ends in
-- "only" and a kernel stands in that one's script alone. The scripts are *_takes.lua.
-- Go twin: writePolicies in internal/wire/message.go chooses between this script and batch.lua.
-- KEYS: one state per request.
-- ARGV: as for batch.lua: policies of one kernel, which do not ban, and groups of operation 1 with
--       one check, whose weight may pass, and of operation 4.
-- Returns: as batch.lua.
-- Example: that of batch.lua.
local answers, failures = {struct.pack('<d', now_us)}, nil

-- Answers the requests that have no answer yet. Arguments cost less than upvalues.
local function run(now_us, grace, answers, KEYS, ARGV)
  -- The prelude and the kernel.
  local policy   -- only the parameter of functions whose calls stay
  local message, last = ARGV[1], 0
  local policies = unpack_state('<d', message)
  local position = 9 + 56 * policies
  position = position + 8 * policies   -- only concurrency
  while position <= #message do
    local operation, count, _, number, weight, reserve
    operation, count, _, number, weight, position = unpack_state('<ddddd', message, position)
    weight = operation == 4 and -weight or weight   -- only concurrency
    reserve = 0
    if number < 0 then
      number = -number
      reserve, position = unpack_state('<d', message, position)
    end
    local first = position - 16 * (last + 1)   -- only concurrency
    position = position + 16 * count   -- only concurrency
    last = last + count
    local policy_limit, policy_window, policy_capacity, policy_max_delay, policy_max_debt,
      policy_tick = unpack_state('<dddddd', message, 56 * number - 39)
    local policy_now, policy_offset = floor(now_us / policy_tick), now_us % policy_tick
    local policy_index = floor(policy_now / policy_window)
    local policy_volume = policy_capacity * policy_window
    local policy_full = floor((policy_volume + policy_limit - 1) / policy_limit)
    local nodes = 56 * policies + 8 * number   -- only concurrency
    local policy_node = string.sub(message, nodes + 1, nodes + 8)   -- only concurrency
    for i = #answers, last do
      local key = KEYS[i]
      local at = first + 16 * i   -- only concurrency
      local wait, remaining, reset, delay, x, y, z, kept = decide(policy, key, weight, reserve, at)
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
end

while true do
  local ok, problem = pcall(run, now_us, grace, answers, KEYS, ARGV)
  if ok then
    break
  end
  failures = failures or {}
  failures[#failures + 1] = #answers
  failures[#failures + 1] = type(problem) == 'table' and problem.err or problem
  answers[#answers + 1] = struct.pack('<dddd', -2, 0, 0, 0)
end

local answer = table.concat(answers)
if not failures then
  return answer
end
table.insert(failures, 1, answer)
return failures
