-- What Redis gives a script: Lua 5.1 and these names.
std = "lua51"
read_globals = {"redis", "struct", "cjson", "cmsgpack", "bit", "KEYS", "ARGV", table = {fields = {"unpack"}}}
max_line_length = 100

-- Go joins fragments into one script, so that the locals of one reach the later ones. luacheck sees
-- each file alone: such a name is unused in the one file and unknown in the other.
local writable = {kernels = true, bans = true, log_rewritable = true}
local names, unused, paths = {}, {}, {}
-- Go puts numbers in the places of these names.
for line in io.lines("internal/redis/numbers.go") do
  for name in line:gmatch('"([A-Z_]+)":') do
    table.insert(names, name)
  end
end
for path in io.popen("ls scripts/*.lua"):lines() do
  table.insert(paths, path)
  for line in io.lines(path) do
    local list = line:match("^local function ([%w_]+)") or line:match("^local ([%w_, ]+)") or ""
    for name in list:gmatch("[%w_]+") do
      table.insert(unused, "211/" .. name)
      if not writable[name] then
        table.insert(names, name)
      end
    end
  end
end
for _, path in ipairs(paths) do
  files[path] = {globals = {"kernels", "bans", "log_rewritable"}, read_globals = names, ignore = unused}
end
-- No later fragment uses the names of these.
files["scripts/ban.lua"].ignore, files["scripts/batch.lua"].ignore = {}, {}
-- The frames, in which functions stand in place of their calls.
for _, name in ipairs({"policy", "check_number", "calendar_place"}) do
  table.insert(names, name)
end
for _, path in ipairs({"scripts/takes.lua", "scripts/take_alone.lua"}) do
  files[path].ignore = {"211", "212", "221", "231", "311", "431", "432"}
end
