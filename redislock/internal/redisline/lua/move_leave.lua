-- move_leave: ends an exclusive hold while its slot is moved and the line is on another
-- node or does not exist. No claim is notified; a waiter finds it with its next beat.
--
-- KEYS  1 the hold
-- ARGV  1 "p1 <id> <try> "
-- ->    1 ended, 0 this claim does not hold
local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
