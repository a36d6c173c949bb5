-- enlist: a client asks whether the node votes in its quorum.
--
-- KEYS  1 the roll
-- ARGV  1 the list
-- ->    {votes, ms since it became silent, life, epoch, seconds the server runs, its run id};
--       0: it serves another quorum; 1: this server cannot be a node
local list = redis.call('HGET', KEYS[1], 'list')
if list and list ~= ARGV[1] then return 0 end
local uptime, run = silence(KEYS[1])
if not uptime then return 1 end
if not list then redis.call('HSET', KEYS[1], 'list', ARGV[1], 'epoch', '0') end
local roll = redis.call('HMGET', KEYS[1], 'votes', 'since', 'life', 'epoch')
local ms = moment()
if tonumber(roll[2]) > ms then -- the clock was set back
  roll[2] = string.format('%.0f', ms)
  redis.call('HSET', KEYS[1], 'since', roll[2])
end
return {roll[1], math.max(0, ms - roll[2]), roll[3], roll[4], uptime, run}
