-- quorum: what a node knows of the quorum it votes in.
--
-- The membership is a hash without an expiry:
--   list   names the quorum's nodes; none until a quorum lets the node vote
--   votes  1 it votes, 0 it was restarted and may have lost data, n it is new here
--   epoch  votes of different epochs are never combined
--   life   identifies the node's memory: it changes with every loss
--   since  when it stopped voting, in ms
--   run    the server's run id at the last check
--
-- A restarted server may have lost its last writes: a hold, a token, and the fact that it
-- has stopped voting. So every vote compares the membership with the run id of the server,
-- in the step that votes. Other things that a restart removes would not do, such as the
-- script itself: a client with another prefix or database loads it again, and after
--   save, hold granted, restart, call of the other client
-- the first vote would find everything as it was before the hold. The check takes a few
-- microseconds.
local function time_now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000), time[1] .. string.sub('00000' .. time[2], -6)
end

-- check_restart reads the server's run id, and stops a node that was restarted from
-- voting. It returns the server's uptime in seconds and its run id; false for a server
-- that cannot be a node: versions before 7 are not tested.
local function check_restart(key)
  local info = redis.call('INFO', 'server')
  local run, major = string.match(info, 'run_id:(%x+)'), string.match(info, 'redis_version:(%d+)')
  if not run or not major or tonumber(major) < 7 then return false end
  local known = redis.call('HGET', key, 'run')
  local uptime = tonumber(string.match(info, 'uptime_in_seconds:(%d+)') or 0)
  if known == run then return uptime, run end
  local ms, us = time_now()
  redis.call('HSET', key, 'run', run, 'since', string.format('%.0f', ms), 'life', run .. us, 'votes', known and '0' or 'n')
  return uptime, run
end

-- voting_epoch returns the epoch in which the node votes for a session that enlisted for
-- the quorum list at the server with this run id; or false and the reply: {5} the node
-- does not vote, {7} the session enlisted at another server.
local function voting_epoch(key, list, run)
  local member = redis.call('HMGET', key, 'votes', 'epoch', 'list', 'run')
  if member[1] ~= '1' or member[3] ~= list or not member[4] then return false, {5} end
  if not string.find(redis.call('INFO', 'server'), 'run_id:' .. member[4] .. '\r', 1, true) then
    check_restart(key)
    return false, {5}
  end
  if member[4] ~= run then return false, {7} end
  return member[2]
end

