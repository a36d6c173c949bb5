-- enter_free_many: enter_free for many exclusive claims with one fence. A name that is
-- not free is left to enter. Usually no claim waits for any of the names, which one call
-- finds out for all.
--
-- KEYS  1 the fence, then the hold of each claim, then the line of each claim
-- ARGV  for each claim 1 "p1 <id> <try> ", 2 " <limit> <session> <ttl> 0 <note>", 3 ttl in ms
-- ->    for each claim its token, or ''
local call = redis.call
local time = call('TIME')
local stamp = math.max(time[1] * 1000000 + time[2], (call('GET', KEYS[1]) or 0) + 1)
local ms = time[1] * 1000 + math.floor(time[2] / 1000) -- expiries are moments, see line.lua
local n = (#KEYS - 1) / 2
local lines = call('EXISTS', unpack(KEYS, n + 2)) > 0
-- The fence first: a token above it could be used again.
call('SET', KEYS[1], string.format('%.0f', stamp + n - 1))
local out = {}
for i = 1, n do
  out[i] = ''
  if not lines or call('EXISTS', KEYS[n + 1 + i]) == 0 then
    local next = string.format('%.0f', stamp)
    if call('SET', KEYS[1 + i], ARGV[3 * i - 2] .. next .. ARGV[3 * i - 1], 'NX', 'PXAT', string.format('%.0f', ms + ARGV[3 * i])) then
      out[i] = next
      stamp = stamp + 1
    end
  end
end
return out
