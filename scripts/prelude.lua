-- prelude.lua: the names that every kernel uses, before all kernels.
-- Go twin: internal/kernel/params.go
-- KEYS: none
-- ARGV: none
-- Defines: ceil_div        division rounded up, exact while a + b <= 2^53
--          MAX_CHARGE      the most units that can be charged at once
--          add_debt        units after a charge, which saturates at `most`
--          foreign         raises the error of a foreign stored value
--          stored_numbers  the doubles of a stored string of a size: whole and from 0 to 2^53
--          ttl             text of the milliseconds until a state expires, reset in `reset` ticks
local call, pack, unpack_state = redis.call, struct.pack, struct.unpack
local floor, max, min = math.floor, math.max, math.min

-- x - x % 1 is floor(x), and costs less than a call.
local function ceil_div(a, b)
  return (a + b - 1) / b - (a + b - 1) / b % 1
end

local MAX_CHARGE, MAX_STORED = 2 ^ 52, 2 ^ 53

local function add_debt(units, weight, most)
  return min(units + weight, max(units, most))
end

-- The error fails the request of that key alone; internal/dial/errors.go matches the word.
local function foreign()
  error('FOREIGNVALUE the stored value is none of this module', 0)
end

-- x % 1 is 0 for whole numbers alone: not for NaN or an infinity. For a format of two numbers c is
-- the position after them, which passes the checks.
local function stored_numbers(state, format, size)
  if #state ~= size then
    foreign()
  end
  local a, b, c = unpack_state(format, state)
  if a % 1 + b % 1 + c % 1 ~= 0 or a < 0 or b < 0 or c < 0
    or a > MAX_STORED or b > MAX_STORED or c > MAX_STORED then
    foreign()
  end
  return a, b, c
end

-- As a text: Redis formats a number for longer.
local function ttl(policy, reset)
  return string.format('%d', ceil_div(reset * policy.tick - policy.offset, 1000) + grace)
end
