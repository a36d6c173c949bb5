-- look_holder: precedes look. It answers for an exclusive hold and writes only an expiry,
-- which a server that is out of memory still permits.
--
-- KEYS  1 the hold, 2 the line, 3 the fence; then the sets of the line
-- ARGV  as look.lua
-- ->    the token
do
  local value = redis.call('GET', KEYS[1])
  if value and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
    if ARGV[3] == '1' then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
    return string.match(value, '^%d+', #ARGV[1] + 1)
  end
end

