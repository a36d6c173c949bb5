-- rejoin: mark and epoch are raised, and the node votes.
--
-- KEYS  1 the roll, 2 the fence
-- ARGV  1 the life that the client has seen, 2 the mark, 3 the epoch, 4 the epoch
--       that the client has seen
-- ->    1; 0 the epoch has begun, or the node has lost its memory again
silence(KEYS[1])
local roll = redis.call('HMGET', KEYS[1], 'life', 'epoch', 'votes')
if roll[1] ~= ARGV[1] or roll[2] ~= ARGV[4] or tonumber(roll[2] or 0) >= tonumber(ARGV[3]) then return 0 end
local last, mark = tonumber(redis.call('GET', KEYS[2]) or 0), tonumber(ARGV[2])
if roll[3] ~= '1' then -- what was lost was below the clock
  local _, us = moment()
  mark = math.max(mark, tonumber(us))
end
if last < mark then redis.call('SET', KEYS[2], string.format('%.0f', mark)) end
redis.call('HSET', KEYS[1], 'epoch', ARGV[3], 'votes', '1')
return 1
