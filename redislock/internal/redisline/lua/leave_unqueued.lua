-- leave_unqueued: precedes leave. It ends an exclusive hold of a name that has no line.
--
-- KEYS  1 the hold, 2 the line, 3 the fence; then the sets of the line
-- ARGV  as leave.lua
-- ->    1
local call = redis.call
if call('EXISTS', KEYS[2]) == 0 then
  local value = call('GET', KEYS[1])
  if value and string.find(value, ARGV[1], 1, true) == 1 then
    return call('DEL', KEYS[1])
  end
end

