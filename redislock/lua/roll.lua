-- roll: what a node knows of the quorum it votes in, see vote.go.
--
-- The roll is a hash without an expiry:
--   list   names the quorum's nodes
--   votes  1 it votes, 0 it was restarted and may have forgotten, n it is new here
--   epoch  votes of different epochs are never combined
--   life   names this memory of the node: another after every loss
--   since  when it became silent, in ms
--   run    the server's run id when it was last looked at
--
-- A restarted server may have forgotten the end of what it knew: a hold, a token,
-- and that it has not voted since. So every vote compares the roll with the run id
-- of the server that runs it, in the step that votes. Nothing else that a server
-- forgets would do, such as the script itself: a neighbour with another prefix or
-- in another database brings it back, and then the first vote after
--   save, hold granted, restart, neighbour's call
-- finds all as it was before the hold. A few microseconds are the price.
local function moment()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000), time[1] .. string.sub('00000' .. time[2], -6)
end

-- silence looks at the server and marks a node as silent that was restarted. It
-- returns for how many seconds the server has been running, and its run id; false
-- for a server that cannot be a node: versions before 7 are not tested.
local function silence(key)
  local info = redis.call('INFO', 'server')
  local run, major = string.match(info, 'run_id:(%x+)'), string.match(info, 'redis_version:(%d+)')
  if not run or not major or tonumber(major) < 7 then return false end
  local known = redis.call('HGET', key, 'run')
  local uptime = tonumber(string.match(info, 'uptime_in_seconds:(%d+)') or 0)
  if known == run then return uptime, run end
  local ms, us = moment()
  redis.call('HSET', key, 'run', run, 'since', string.format('%.0f', ms), 'life', run .. us, 'votes', known and '0' or 'n')
  return uptime, run
end

-- voting returns the epoch in which the node votes for a session that enlisted for
-- the quorum list at the server with this run id; or false and what it answers:
-- {5} the node does not vote, {7} it is not the server that the session enlisted at.
local function voting(key, list, run)
  local roll = redis.call('HMGET', key, 'votes', 'epoch', 'list', 'run')
  if roll[1] ~= '1' or roll[3] ~= list or not roll[4] then return false, {5} end
  if not string.find(redis.call('INFO', 'server'), 'run_id:' .. roll[4] .. '\r', 1, true) then
    silence(key)
    return false, {5}
  end
  if roll[4] ~= run then return false, {7} end
  return roll[2]
end

