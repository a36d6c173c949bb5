-- vote: the head of enter at a node of a quorum. The note of the claim begins
-- with the epoch of its grant, between two marks, which confirm adds the granted
-- token to when it changes the hold's.
--
-- KEYS  1 the hold, 2 the line, 3 the fence, 4 the roll
-- ARGV  1 to 4 as enter.lua, 5 a proposed token, 6 the epoch that the client knows,
--       7 the list of the client's quorum, 8 the run id of the server that it enlisted at
-- ->    as enter.lua, with the granted token; or {5} or {7}, see roll.lua;
--       or {6, epoch} it votes in another epoch
do
  local epoch, answer = voting(KEYS[4], ARGV[7], ARGV[8])
  if not epoch then return answer end
  if epoch ~= ARGV[6] then return {6, epoch} end
end

