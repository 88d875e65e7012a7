-- Asks all nodes a question. They find out by the version of the overrides, which they poll anyway: the number of zeros
-- before its last number changes, which is the same number to all who read it.
-- Go twin: none; internal/storepool/survey.go calls it.
-- KEYS: 1  the version of the overrides: a number, a blank, zeros and a number; that of none, '0 0', goes with the question
--       2  the questions: lines '<until> <id> <subject>', until in milliseconds of this Redis
-- ARGV: 1  the id
--       2  the subject
--       3  for how long it is asked, in milliseconds
--       4  the most questions
-- Returns: asked, full where there are too many questions, foreign where the version is none
-- Example: the version '5000000 12' -> asked; the version is '5000000 012' then.

local version = redis.call('GET', KEYS[1])
local number, zeros, count = string.match(version or '0 0', '^(%d+) (0*)(%d+)$')
if not number then
  return 'foreign'
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lines = {}
for line, till in string.gmatch(redis.call('GET', KEYS[2]) or '', '((%d+) %S+ %S+\n)') do
  if tonumber(till) > now then
    lines[#lines + 1] = line
  end
end
if #lines >= tonumber(ARGV[4]) then
  return 'full'
end
lines[#lines + 1] = string.format('%.0f %s %s\n', now + ARGV[3], ARGV[1], ARGV[2])
redis.call('SET', KEYS[2], table.concat(lines), 'PX', ARGV[3])
version = number .. ' ' .. string.rep('0', #zeros % 8 + 1) .. count
if tonumber(number) == 0 then
  redis.call('SET', KEYS[1], version, 'PX', ARGV[3])
else
  redis.call('SET', KEYS[1], version)
end
return 'asked'
