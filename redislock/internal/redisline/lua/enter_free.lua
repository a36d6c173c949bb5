-- enter_free: precedes enter for an exclusive claim. It takes a name that has no hold and
-- no line; all other cases are left to enter. Every lock pays for every call in here, so
-- there are four.
--
-- KEYS  1 the hold, 2 the line, 3 the fence
-- ARGV  as enter.lua
-- ->    the token
local call = redis.call
if not ARGV[5] and call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local time = call('TIME')
  local micros = time[2]
  if #micros < 6 then micros = string.sub('00000' .. micros, -6) end
  local token = time[1] .. micros
  local last = call('GETSET', KEYS[3], token)
  if last and (#last ~= #token or last >= token) then
    if not tonumber(last) then
      call('SET', KEYS[3], last)
      return redis.error_reply('NOFENCE ' .. KEYS[3] .. ' is not a number')
    end
    if tonumber(last) >= tonumber(token) then
      -- The clock stands still or was set back: count on. A double holds 2^53.
      token = string.format('%.0f', last + 1)
      call('SET', KEYS[3], token)
    end
  end
  call('SET', KEYS[1], ARGV[1] .. token .. ARGV[2], 'PX', ARGV[3])
  return token
end

