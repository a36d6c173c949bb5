-- prolong: the head of look. An exclusive hold is answered here; it writes
-- nothing but an expiry, which a server that is out of memory still does.
--
-- KEYS  1 the hold, 2 the line; beside them the sets of the line
-- ARGV  as look.lua
-- ->    the token
do
  local value = redis.call('GET', KEYS[1])
  if value and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
    if ARGV[3] == '1' then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
    return string.match(value, '^%d+', #ARGV[1] + 1)
  end
end

