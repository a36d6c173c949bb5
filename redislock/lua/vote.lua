-- vote: the head of enter at a node of a quorum. The note of the claim begins
-- with the epoch of its grant, between two marks, which confirm adds the granted
-- token to when it changes the hold's.
--
-- KEYS  1 the hold, 2 the line, 3 the fence, 4 the roll
-- ARGV  1 to 4 as enter.lua, 5 a proposed token, 6 the epoch that the client knows,
--       7 the list of the client's quorum, 8 "1" if this server may not have run the
--       script before
-- ->    as enter.lua, with the granted token; or {5} the node does not vote;
--       or {6, epoch} it votes in another epoch
if ARGV[8] then silence(KEYS[4]) end
do
  local roll = redis.call('HMGET', KEYS[4], 'votes', 'epoch', 'list')
  if roll[1] ~= '1' or roll[3] ~= ARGV[7] then return {5} end
  if roll[2] ~= ARGV[6] then return {6, roll[2]} end
end

