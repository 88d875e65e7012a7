-- kernels.lua: where the fragments of kernels and bans put themselves, third fragment of scripts
-- with batch.lua.
-- Go twin: Registry in internal/kernel/algorithm.go
-- KEYS: none
-- ARGV: none
-- Defines: kernels  the table that each algorithm's fragment adds itself to
--          bans     the functions of ban.lua; nil in scripts without it
--          unpack   the function that Lua 5.1 has alone, and later versions in table
local kernels, bans = {}
local unpack = table.unpack or unpack
