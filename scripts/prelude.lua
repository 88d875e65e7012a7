-- prelude.lua: the names that every kernel uses, second fragment of every script.
-- Go twin: cd in limiter/algorithm.go   KEYS: none   ARGV: none
-- Defines: kernels  the table that each algorithm's fragment adds itself to
--          cd       division rounded up, exact while a + b <= 2^53
--          MAX_CHARGE  the most units that can be charged at once
--          indebted    units after a charge, which saturates at `most`
--          ttl      milliseconds until a share that resets in `reset` ticks may be forgotten
local call, pack, unpack_state = redis.call, struct.pack, struct.unpack
local floor, max, min = math.floor, math.max, math.min
local kernels = {}

local function cd(a, b)
  return floor((a + b - 1) / b)
end

local MAX_CHARGE = 2 ^ 52

local function indebted(units, weight, most)
  return min(units + weight, max(units, most))
end

local function ttl(policy, reset)
  return cd(reset * policy.tick - policy.offset, 1000) + grace
end
