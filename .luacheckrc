-- What Redis gives a script: Lua 5.1 and these names.
std = "lua51"
read_globals = {
  "redis", "struct", "cjson", "cmsgpack", "bit", "KEYS", "ARGV",
  -- Go joins the fragments into one script, so the top-level locals of clock.lua and prelude.lua
  -- reach the later fragments, while luacheck sees each file alone and takes them for globals.
  "now_us", "grace",
  "call", "pack", "unpack_state", "floor", "max", "min", "ceil_div", "ttl",
  "MAX_CHARGE", "add_debt", "foreign", "stored_numbers",
  "decide", "take",
  -- Those of lease.lua and of the kernels reach the fragments of leases in the same way.
  "leasable", "SERIALS", "HOLES", "drained_bucket", "LOG_UNITS", "log_used", "log_dead", "log_entry", "log_first",
  "log_unpack", "log_pack", "rolled_window", "rolled_counter",
}
-- Every algorithm adds itself to the first; ban.lua is the second.
globals = {"kernels", "bans", "log_rewritable"}
max_line_length = 100

-- For the same reason luacheck sees no use of what these define.
for _, name in ipairs({
  "clock", "prelude", "kernels", "lease", "fixed_window", "sliding_window_counter", "sliding_window_log",
  "sliding_window_log_changes", "bucket", "takes",
}) do
  files["scripts/" .. name .. ".lua"].ignore = {"211"}
end
-- What is made of takes.lua has the names of all fragments but of the clock in itself, some in vain.
files["scripts/*_takes.lua"] = {
  ignore = {"211", "221", "231", "431", "631"},
  not_globals = {"call", "pack", "ceil_div", "ttl", "stored_numbers", "foreign", "decide", "take", "kernels"},
}
files["scripts/takes.lua"].ignore = {"211", "212", "221", "431", "432"}
