-- What Redis gives a script: Lua 5.1 and these names.
std = "lua51"
read_globals = {
  "redis", "struct", "cjson", "cmsgpack", "bit", "KEYS", "ARGV",
  -- Go joins the fragments into one script, so the top-level locals of clock.lua and prelude.lua
  -- reach the later fragments, while luacheck sees each file alone and takes them for globals.
  "now_us", "grace",
  "call", "pack", "unpack_state", "floor", "max", "min", "ceil_div", "ttl",
  "MAX_CHARGE", "add_debt", "foreign", "stored_numbers",
}
-- Every algorithm adds itself to the first; ban.lua is the second.
globals = {"kernels", "bans"}
max_line_length = 100

-- For the same reason luacheck sees no use of what these two define.
files["scripts/clock.lua"].ignore = {"211"}
files["scripts/prelude.lua"].ignore = {"211"}
