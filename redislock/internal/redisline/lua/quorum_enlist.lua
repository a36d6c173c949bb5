-- quorum_enlist: a client asks whether the node votes in its quorum. A node that serves
-- none stays so: a client that the other nodes refuse must not claim it.
--
-- KEYS  1 the membership
-- ARGV  1 the list
-- ->    {votes, ms since it stopped voting, life, epoch, the server's uptime in seconds,
--       its run id}; 0: it serves another quorum; 1: this server cannot be a node
local list = redis.call('HGET', KEYS[1], 'list')
if list and list ~= ARGV[1] then return 0 end
local uptime, run = check_restart(KEYS[1])
if not uptime then return 1 end
local member = redis.call('HMGET', KEYS[1], 'votes', 'since', 'life', 'epoch')
local ms = time_now()
if tonumber(member[2]) > ms then -- the clock was set back
  member[2] = string.format('%.0f', ms)
  redis.call('HSET', KEYS[1], 'since', member[2])
end
return {member[1], math.max(0, ms - member[2]), member[3], member[4] or '0', uptime, run}
