-- Writes or removes one override, so that version and entries change together.
-- Go twin: none; internal/overrides/change.go calls it.
-- KEYS: 1  the version: microseconds that only grow, and the number of entries
--       2  the entries: a hash
-- ARGV: 1  the version that the node knows, as a number
--       2  the field
--       3  how long the entry lasts in microseconds, 0 for ever, -1 to remove it
--       4  the rule, behind the end in the value
--       5  the most entries
--       6  and on: fields and values of entries that have ended, removed while they are the same
-- Returns: { outcome, version before, version after, value, seconds, microseconds }. The outcome is
-- done, full, absent, behind where the version in Redis is older than that of the node, or lost
-- where there are other entries than those of the version.
-- Example: nothing stored, ARGV {0, 'f', 0, 'rule', 10} at 5 s since the Unix epoch ->
-- { 'done', '', '5000000 1', '0 rule', '5', '0' }.

-- A number that cannot grow any more is foreign, and none.
local function number(text)
  local n = tonumber(string.match(text or '', '^%d+')) or 0
  return n < 9.005e15 and n or 0
end

local before = redis.call('GET', KEYS[1]) or ''
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local field, lasts = ARGV[2], tonumber(ARGV[3])

local function answer(outcome, after, value)
  return { outcome, before, after or before, value or '', time[1], time[2] }
end

if number(before) < tonumber(ARGV[1]) then
  return answer('behind')
end
local entries = redis.call('HLEN', KEYS[2])
if number(before) > 0 and tonumber(string.match(before, ' (%d+)$')) ~= entries then
  return answer('lost')
end

local ended = {}
for i = 6, #ARGV, 2 do
  if ARGV[i] ~= field and redis.call('HGET', KEYS[2], ARGV[i]) == ARGV[i + 1] then
    ended[#ended + 1] = ARGV[i]
  end
end

local old = redis.call('HGET', KEYS[2], field)
local count = entries - #ended
local value
if lasts < 0 then
  local last = number(old or '')
  if not old or last > 0 and last <= now then
    return answer('absent')
  end
  redis.call('HDEL', KEYS[2], field)
  count = count - 1
else
  if not old then
    count = count + 1
  end
  if count > tonumber(ARGV[5]) then
    return answer('full')
  end
  local last = lasts == 0 and '0' or string.format('%.0f', now + lasts)
  value = last .. ' ' .. ARGV[4]
  redis.call('HSET', KEYS[2], field, value)
end
for _, name in ipairs(ended) do
  redis.call('HDEL', KEYS[2], name)
end

local after = string.format('%.0f %d', math.max(now, number(before) + 1), count)
redis.call('SET', KEYS[1], after)
return answer('done', after, value)
