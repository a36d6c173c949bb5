-- giveback: the head of leave. A hold that nobody waits for ends here.
--
-- KEYS  1 the hold, 2 the line
-- ARGV  as leave.lua
-- ->    1
if redis.call('EXISTS', KEYS[2]) == 0 then
  local value = redis.call('GET', KEYS[1])
  if value and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
    redis.call('DEL', KEYS[1])
    return 1
  end
end

