-- quorum_rejoin: raises fence and epoch, and lets the node vote in the client's quorum.
--
-- KEYS  1 the membership, 2 the fence
-- ARGV  1 the life that the client has seen, 2 the new fence, 3 the new epoch, 4 the epoch
--       that the client has seen, 5 the list
-- ->    1; 0 the epoch has begun already, the node has lost its memory again, or it serves
--       another quorum
check_restart(KEYS[1])
local member = redis.call('HMGET', KEYS[1], 'life', 'epoch', 'votes', 'list')
local epoch = member[2] or '0'
if member[1] ~= ARGV[1] or epoch ~= ARGV[4] or tonumber(epoch) >= tonumber(ARGV[3]) then return 0 end
if member[4] and member[4] ~= ARGV[5] then return 0 end
local last, fence = tonumber(redis.call('GET', KEYS[2]) or 0), tonumber(ARGV[2])
if member[3] ~= '1' then -- the tokens that it lost were below the clock
  local _, us = time_now()
  fence = math.max(fence, tonumber(us))
end
if last < fence then redis.call('SET', KEYS[2], string.format('%.0f', fence)) end
redis.call('HSET', KEYS[1], 'list', ARGV[5], 'epoch', ARGV[3], 'votes', '1')
return 1
