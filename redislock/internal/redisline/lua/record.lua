-- record: writes or deletes a record if its version is still the expected one. Versions
-- come from the fence, so none is ever used again.
--
-- KEYS  1 the record, "<version> <value>", 2 the fence
-- ARGV  1 the expected version, 2 how long to keep it in ms, 0 for ever,
--       3 the value; without it the record is deleted
-- ->    {1, the version written} or {0, the present version}
local old = redis.call('GET', KEYS[1])
local version = old and string.match(old, '^%d+') or '0'
if version ~= ARGV[1] then return {0, version} end
if not ARGV[3] then
  redis.call('DEL', KEYS[1])
  return {1, '0'}
end
local time = redis.call('TIME')
local last = redis.call('GET', KEYS[2]) or 0
version = string.format('%.0f', math.max(time[1] * 1000000 + time[2], last + 1))
redis.call('SET', KEYS[2], version)
if ARGV[2] == '0' then
  redis.call('SET', KEYS[1], version .. ' ' .. ARGV[3])
else
  redis.call('SET', KEYS[1], version .. ' ' .. ARGV[3], 'PX', ARGV[2])
end
return {1, version}
