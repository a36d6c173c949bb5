-- takes: take for many exclusive claims of one namespace at once. A name that is
-- not free is left to enter. Usually nobody waits for any of them, which one call
-- finds out for all.
--
-- KEYS  1 the fence, then for each claim its hold, then for each claim its line
-- ARGV  for each claim 1 "p1 <id> <try> ", 2 " <limit> <session> <ttl> 0 <note>", 3 ttl in ms
-- ->    for each claim its token, or ''
local call = redis.call
local time = call('TIME')
local stamp = math.max(time[1] * 1000000 + time[2], (call('GET', KEYS[1]) or 0) + 1)
local n = (#KEYS - 1) / 2
local lines = call('EXISTS', unpack(KEYS, n + 2)) > 0
-- The fence first: a token that is above it could be given again.
call('SET', KEYS[1], string.format('%.0f', stamp + n - 1))
local out = {}
for i = 1, n do
  out[i] = ''
  if not lines or call('EXISTS', KEYS[n + 1 + i]) == 0 then
    local next = string.format('%.0f', stamp)
    if call('SET', KEYS[1 + i], ARGV[3 * i - 2] .. next .. ARGV[3 * i - 1], 'NX', 'PX', ARGV[3 * i]) then
      out[i] = next
      stamp = stamp + 1
    end
  end
end
return out
