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
-- A server that is restarted forgets its scripts, so one that is called by its
-- digest has run since; whoever has to send it whole has it look at the run id.
local function moment()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000), time[1] .. string.sub('00000' .. time[2], -6)
end

-- silence looks at the server and marks a node as silent that was restarted. It
-- returns for how many seconds the server has been running; false for one that
-- cannot be a node: before version 7 a server may remember its scripts across a
-- restart, and nobody would look.
local function silence(key)
  local info = redis.call('INFO', 'server')
  local run, major = string.match(info, 'run_id:(%x+)'), string.match(info, 'redis_version:(%d+)')
  if not run or not major or tonumber(major) < 7 then return false end
  local known = redis.call('HGET', key, 'run')
  local uptime = tonumber(string.match(info, 'uptime_in_seconds:(%d+)') or 0)
  if known == run then return uptime end
  local ms, us = moment()
  redis.call('HSET', key, 'run', run, 'since', string.format('%.0f', ms), 'life', run .. us, 'votes', known and '0' or 'n')
  return uptime
end

