-- lease.lua: how many units may be taken ahead of their requests, third fragment of the scripts of
-- batches that take units ahead. The functions of each kernel follow in a fragment of their own.
-- Go twin: internal/kernel/lease.go
-- KEYS: none
-- ARGV: none
-- Defines: leasable  the units of a lease, of those that are left and those that are wanted

-- A quarter of what is left at most: other nodes have requests too. Few units are not worth it.
local function leasable(left, want)
  local most = floor(left / 4)
  return most < 4 and 0 or min(want, most)
end
