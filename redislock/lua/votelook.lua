-- votelook: the head of look at a node of a quorum. What a node that does not vote
-- shows may be older than what it has forgotten: it is neither told nor prolonged.
--
-- KEYS  1 the hold, 2 the line, 3 the roll
-- ARGV  1 to 3 as look.lua, 4 the list of the client's quorum, 5 the run id of the
--       server that it enlisted at
-- ->    as look.lua; or {5} or {7}, see roll.lua
do
  local epoch, answer = voting(KEYS[3], ARGV[4], ARGV[5])
  if not epoch then return answer end
end

