-- Keeps the answer of a node for a while, and notes that the node has answered a question.
-- Go twin: none; internal/storepool/survey.go calls it.
-- KEYS: 1  who has answered the question: names of nodes, each on a line
--       2  the node's answer
-- ARGV: 1  the node
--       2  the answer
--       3  for how long they are kept, in milliseconds
--       4  the most bytes of names
-- Returns: {}
-- Example: nothing stored, ARGV {'N', 'text', 60000, 1000} -> {}; the keys hold 'N\n' and 'text' then.

local names = redis.call('GET', KEYS[1]) or ''
local line = ARGV[1] .. '\n'
if #names + #line <= tonumber(ARGV[4]) then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
  if not string.find(names, line, 1, true) then
    redis.call('SET', KEYS[1], names .. line, 'PX', ARGV[3])
  end
end
return {}
