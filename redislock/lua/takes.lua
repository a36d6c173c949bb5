-- takes: take for many exclusive claims of one namespace at once. A name that is
-- not free is left to enter.
--
-- KEYS  1 the fence, then for each claim its hold and its line
-- ARGV  for each claim 1 "p1 <id> <try> ", 2 " <limit> <session> <ttl> 0 <note>", 3 ttl in ms
-- ->    for each claim its token, or ''
local call = redis.call
local time = call('TIME')
local stamp = math.max(time[1] * 1000000 + time[2], (call('GET', KEYS[1]) or 0) + 1)
local out, token = {}, false
for i = 1, (#KEYS - 1) / 2 do
  local hold, at = KEYS[2 * i], 3 * i
  out[i] = ''
  if call('EXISTS', hold, KEYS[2 * i + 1]) == 0 then
    token = string.format('%.0f', stamp)
    stamp = stamp + 1
    call('SET', hold, ARGV[at - 2] .. token .. ARGV[at - 1], 'PX', ARGV[at])
    out[i] = token
  end
end
if token then call('SET', KEYS[1], token) end
return out
