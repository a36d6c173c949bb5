-- quorum_enter_free: enter_free at a node of a quorum, for an exclusive claim. It takes a
-- name that has no hold and no line with the proposed token, unless the fence has passed
-- it, or it is more than a second ahead of the clock.
--
-- KEYS, ARGV  as quorum_enter.lua
-- ->    the token
if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local time, token = redis.call('TIME'), ARGV[5]
  local most = (time[1] + 1) * 1000000 + time[2]
  if tonumber(token) > most then token = string.format('%.0f', most) end
  local last = redis.call('GETSET', KEYS[3], token)
  if last and (#last ~= #token or last >= token) then
    if not tonumber(last) then
      redis.call('SET', KEYS[3], last)
      return redis.error_reply('NOFENCE ' .. KEYS[3] .. ' is not a number')
    end
    if tonumber(last) >= tonumber(token) then
      token = string.format('%.0f', last + 1) -- a double holds 2^53
      redis.call('SET', KEYS[3], token)
    end
  end
  redis.call('SET', KEYS[1], ARGV[1] .. token .. ARGV[2], 'PX', ARGV[3])
  return token
end

