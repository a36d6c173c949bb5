-- move_renew: prolongs a hold while its slot is moved and the keys that look needs are on
-- two nodes, or do not all exist.
--
-- KEYS  1 the hold; for a claim that shares also 2 the line, 3 the set of expiries
-- ARGV  1 "p1 <id> <try> ", 2 ttl in ms
-- ->    the token; or '' for a claim that does not hold
local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return string.match(value, '^%d+', #ARGV[1] + 1)
end
if value ~= 'p1 shared' or not KEYS[3] then return '' end
local id, try = string.match(ARGV[1], '^p1 (%x+) (%d+) $')
local record = redis.call('HGET', KEYS[2], id)
local held, known, token = string.match(record or '', '^(%d) %d+ (%d+) (%d+) ')
local expiry = redis.call('ZSCORE', KEYS[3], id)
local clock = redis.call('TIME')
local ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
if held ~= '1' or known ~= try or not expiry or tonumber(expiry) < ms then return '' end
redis.call('ZADD', KEYS[3], ms + ARGV[2], id) -- first, see line.lua on expiries
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) < tonumber(ARGV[2]) then redis.call('PEXPIRE', key, ARGV[2]) end
end
return token
