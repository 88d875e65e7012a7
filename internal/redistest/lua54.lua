-- lua54.lua: imitates a server whose scripts are of Lua 5.4, as those of Dragonfly are. It keeps
-- what the scripts of this module need, and forgets nothing by time.
-- Go twin: internal/redistest/lua54.go starts it, and passes commands to it one by one, and a
-- script's hash before its text.
-- KEYS: none
-- ARGV: none
-- Returns: to each command on its input the reply, behind a line with its length.
-- Example: the command PING -> 7, +PONG.
local keys = {}
local EMPTY = setmetatable({}, {__newindex = error})
local WRONGTYPE = 'WRONGTYPE Operation against a key holding the wrong kind of value'

-- The value of a key, or the one given where there is none. Lists and hashes are tables with a kind.
local function value_of(key, kind, none)
  local value = keys[key]
  if value == nil then
    return none
  elseif (type(value) == 'string' and 'string' or value.kind) ~= kind then
    error({err = WRONGTYPE})
  end
  return value
end

local function list_of(key) return value_of(key, 'list', EMPTY) end
local function hash_of(key) return value_of(key, 'hash', EMPTY) end

-- The integer in a text. Redis takes no other form of it.
local function integer(text)
  if not string.find(text, '^%-?%d+$') then
    error({err = 'ERR value is not an integer or out of range'})
  end
  return math.tointeger(tonumber(text))
end

local function check_expiry(text)
  if integer(text) <= 0 then
    error({err = 'ERR invalid expire time'})
  end
end

-- The first and last index of a list, from 1, of those that a command has, from 0 or from the end.
local function span(list, first, last)
  first, last = integer(first), integer(last)
  first, last = first < 0 and first + #list or first, last < 0 and last + #list or last
  return math.max(0, first) + 1, math.min(#list - 1, last) + 1
end

local function slice(list, first, last)
  return table.move(list, first, last, 1, {})
end

local function fields(hash)
  local all = {}
  for field, value in pairs(hash) do
    if field ~= 'kind' then
      all[#all + 1], all[#all + 2] = string.sub(field, 2), value
    end
  end
  return all
end

local commands = {}

function commands.ping() return {ok = 'PONG'} end
function commands.time() return {os.time(), 0} end
function commands.select() return {ok = 'OK'} end

function commands.get(key) return value_of(key, 'string', false) end

function commands.set(key, value, option, lasts)
  option = option and string.upper(option)
  if option == 'PX' then
    check_expiry(lasts)
  elseif option and option ~= 'KEEPTTL' then
    error({err = 'ERR syntax error'})
  end
  keys[key] = value
  return {ok = 'OK'}
end

function commands.unlink(...)
  local gone = 0
  for _, key in ipairs({...}) do
    gone, keys[key] = keys[key] and gone + 1 or gone, nil
  end
  return gone
end

function commands.flushdb()
  keys = {}
  return {ok = 'OK'}
end

function commands.pexpire(key, lasts)
  check_expiry(lasts)
  return keys[key] and 1 or 0
end

function commands.llen(key) return #list_of(key) end

function commands.lindex(key, index)
  local list = list_of(key)
  return list[span(list, index, index)] or false
end

function commands.lrange(key, first, last)
  local list = list_of(key)
  return slice(list, span(list, first, last))
end

function commands.lset(key, index, value)
  local list = list_of(key)
  list[span(list, index, index)] = value
  return {ok = 'OK'}
end

function commands.ltrim(key, first, last)
  local list = list_of(key)
  local rest = slice(list, span(list, first, last))
  rest.kind = 'list'
  keys[key] = #rest > 0 and rest or nil
  return {ok = 'OK'}
end

function commands.rpush(key, ...)
  keys[key] = value_of(key, 'list', {kind = 'list'})
  table.move({...}, 1, select('#', ...), #keys[key] + 1, keys[key])
  return #keys[key]
end

function commands.hget(key, field) return hash_of(key)[':' .. field] or false end
function commands.hgetall(key) return fields(hash_of(key)) end
function commands.hlen(key) return #fields(hash_of(key)) // 2 end
function commands.hscan(key) return {'0', fields(hash_of(key))} end

function commands.hmget(key, ...)
  local hash, values = hash_of(key), {}
  for i, field in ipairs({...}) do
    values[i] = hash[':' .. field] or false
  end
  return values
end

function commands.hset(key, ...)
  keys[key] = value_of(key, 'hash', {kind = 'hash'})
  local pairs_of, added = {...}, 0
  for i = 1, #pairs_of, 2 do
    local field = ':' .. pairs_of[i]
    added, keys[key][field] = keys[key][field] and added or added + 1, pairs_of[i + 1]
  end
  return added
end

function commands.hdel(key, ...)
  local hash, gone = hash_of(key), 0
  for _, field in ipairs({...}) do
    field = ':' .. field
    if hash[field] then
      gone, hash[field] = gone + 1, nil
    end
  end
  if next(fields(hash)) == nil then
    keys[key] = nil
  end
  return gone
end

-- Runs a command of texts. An error is a table, as in replies.
local function run(name, ...)
  local command = commands[string.lower(name)]
  if not command then
    return {err = 'ERR unknown command'}
  end
  local ok, reply = pcall(command, ...)
  return ok and reply or not ok and (type(reply) == 'table' and reply or {err = 'ERR ' .. reply}) or false
end

-- As Dragonfly: whole numbers of Lua 5.4 in digits, others as C formats them.
local function texts(...)
  local all = {...}
  for i, value in ipairs(all) do
    if type(value) == 'number' then
      all[i] = string.format(math.type(value) == 'integer' and '%d' or '%.17g', value)
    end
  end
  return table.unpack(all)
end

local redis, struct = {}, {pack = string.pack}

function redis.pcall(...) return run(texts(...)) end

function redis.call(...)
  local reply = run(texts(...))
  if type(reply) == 'table' and reply.err then
    error(reply.err, 0)
  end
  return reply
end

-- Returns floats, even for I, and the position as an integer.
function struct.unpack(format, text, position)
  local values = {string.unpack(format, text, position)}
  for i = 1, #values - 1 do
    values[i] = values[i] + 0.0
  end
  return table.unpack(values)
end

local function strict(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

-- What a script has. Another name is an error.
local globals = setmetatable({
  redis = redis, struct = struct, string = string, table = table, math = math, pcall = pcall,
  error = error, type = type, tonumber = tonumber, tostring = tostring, ipairs = ipairs,
  pairs = pairs, next = next, select = select, KEYS = EMPTY, ARGV = EMPTY,
}, {__index = strict, __newindex = strict})

local function run_script(script, count, ...)
  globals.KEYS = slice({...}, 1, integer(count))
  globals.ARGV = slice({...}, integer(count) + 1, select('#', ...))
  local ok, reply = pcall(script)
  return ok and reply or not ok and {err = 'ERR ' .. tostring(reply)} or false
end

local compiled, scripts = {}, {} -- by a script's text; the texts by their hashes

function commands.eval(text, ...)
  compiled[text] = compiled[text] or assert(load(text, '@user_script', 't', globals))
  return run_script(compiled[text], ...)
end

function commands.remember(hash, text)
  scripts[hash] = text
  return {ok = 'OK'}
end

function commands.evalsha(hash, ...)
  if not scripts[hash] then
    return {err = 'NOSCRIPT No matching script. Please use EVAL.'}
  end
  return commands.eval(scripts[hash], ...)
end

-- A reply as bytes. A number that is no integer is a text in the protocol's version 2.
local function encode(reply)
  local kind = math.type(reply) or type(reply)
  if kind == 'integer' then
    return ':' .. reply .. '\r\n'
  elseif kind == 'float' then
    return encode(string.format('%.17g', reply))
  elseif kind == 'string' then
    return '$' .. #reply .. '\r\n' .. reply .. '\r\n'
  elseif kind ~= 'table' then
    return '$-1\r\n'
  elseif reply.err or reply.ok then
    return (reply.err and '-' .. reply.err or '+' .. reply.ok) .. '\r\n'
  end
  local parts = {'*' .. #reply .. '\r\n'}
  for i, value in ipairs(reply) do
    parts[i + 1] = encode(value)
  end
  return table.concat(parts)
end

for head in io.lines() do
  local words = {}
  for i = 1, tonumber(string.match(head, '%d+')) do
    words[i] = io.read(tonumber(string.match(io.read(), '%d+')) + 2):sub(1, -3)
  end
  local reply = encode(run(table.unpack(words)))
  io.write(#reply, '\n', reply)
  io.flush()
end
