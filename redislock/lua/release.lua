-- release: gives back an exclusive hold while a slot is moved, when the line is on
-- another node, or is not there at all. Nobody is told; whoever waits finds it with
-- its next beat.
--
-- KEYS  1 the hold
-- ARGV  1 "p1 <id> <try> "
-- ->    1 ended, 0 it is not held so
local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
