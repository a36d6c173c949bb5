-- leave_unqueued_many: leave_unqueued for many claims. A claim that is not an exclusive
-- holder, or whose name has a line, is left to leave. Usually no name has a line, which
-- one call finds out for all.
--
-- KEYS  the hold of each claim, then the line of each claim
-- ARGV  for each claim "p1 <id> <try> "
-- ->    for each claim 1 ended, or 0
local call = redis.call
local n = #ARGV
local lines = call('EXISTS', unpack(KEYS, n + 1)) > 0
local values = call('MGET', unpack(KEYS, 1, n))
local out, ended, seen = {}, {}, {}
for i, prefix in ipairs(ARGV) do
  local value, hold = values[i], KEYS[i]
  out[i] = 0
  if value and string.sub(value, 1, #prefix) == prefix and not seen[hold]
    and (not lines or call('EXISTS', KEYS[n + i]) == 0) then
    out[i], seen[hold] = 1, true -- leave answers a second call for the same claim
    ended[#ended + 1] = hold
  end
end
if ended[1] then call('DEL', unpack(ended)) end
return out
