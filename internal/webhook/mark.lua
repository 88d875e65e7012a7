-- Has one node at a time tell of an event. The mark lies beside the state that the event is of, and lives as long. A node
-- that tells of the event holds the mark for a while, and again before each attempt; once that is over, another node may.
-- Go twin: none; internal/webhook/mark.go calls it.
-- KEYS: 1  the mark: '<until> <holder> <id> <event>', until in milliseconds of this Redis; 'told <id>' once that is done
-- ARGV: 1  begin: the event is certainly new; meet: another node may have met it; look: hold it only if none does;
--          renew: go on; end: it is told
--       2  the holder
--       3  for how long it holds the mark, in milliseconds
--       4  the TTL of a new mark in milliseconds
--       5  the id
--       6  the event
-- Returns: { 'ours', id, event }, { 'held', milliseconds left }, { 'told' }, or { 'none' } where there is no mark
-- Example: nothing stored, ARGV {'meet', 'n', 60000, 5000, 'msg_A', '{}'} -> { 'ours', 'msg_A', '{}' }.

local what, holder, id = ARGV[1], ARGV[2], ARGV[5]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local mark = redis.call('GET', KEYS[1]) or ''

local function hold(kept, event, ...)
  local till = string.format('%.0f', now + ARGV[3])
  redis.call('SET', KEYS[1], till .. ' ' .. holder .. ' ' .. kept .. ' ' .. event, ...)
  return { 'ours', kept, event }
end

if what == 'begin' or what == 'meet' and mark == '' then
  return hold(id, ARGV[6], 'PX', ARGV[4])
end
local told = string.match(mark, '^told (%S+)$')
local till, other, kept, event = string.match(mark, '^(%d+) (%S+) (%S+) (.*)$')
if (what == 'renew' or what == 'end') and (told or kept) ~= id then
  return { 'none' } -- it has expired, or the next event has taken its place
elseif told then
  return { 'told' }
elseif what == 'end' then
  redis.call('SET', KEYS[1], 'told ' .. id, 'KEEPTTL')
  return { 'told' }
elseif not till then
  return { 'none' }
elseif other ~= holder and tonumber(till) > now then
  return { 'held', string.format('%.0f', till - now) }
end
return hold(kept, event, 'KEEPTTL')
