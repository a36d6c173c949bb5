-- quorum_look: precedes look at a node of a quorum. What a node shows that does not vote
-- may be older than what it has lost: it neither answers nor prolongs.
--
-- KEYS  1 the hold, 2 the line, 3 the fence, 4 the membership
-- ARGV  1 to 3 as look.lua, 4 the list of the client's quorum, 5 the run id of the
--       server that it enlisted at
-- ->    as look.lua; or {5} or {7}, see quorum.lua
do
  local epoch, reply = voting_epoch(KEYS[4], ARGV[4], ARGV[5])
  if not epoch then return reply end
end

