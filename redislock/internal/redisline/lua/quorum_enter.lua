-- quorum_enter: precedes enter at a node of a quorum. The note of the claim begins with
-- the epoch of its grant, between two \3; confirm adds the granted token when it changes
-- the token of the hold.
--
-- KEYS  1 the hold, 2 the line, 3 the fence, 4 the membership
-- ARGV  1 to 4 as enter.lua, 5 a proposed token, 6 the epoch that the client knows,
--       7 the list of the client's quorum, 8 the run id of the server that it enlisted at
-- ->    as enter.lua, with the granted token; or {5} or {7}, see quorum.lua;
--       or {6, epoch} it votes in another epoch
do
  local epoch, reply = voting_epoch(KEYS[4], ARGV[7], ARGV[8])
  if not epoch then return reply end
  if epoch ~= ARGV[6] then return {6, epoch} end
end

