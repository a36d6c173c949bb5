-- givebacks: giveback for many claims at once. One that is not held alone, or that
-- somebody waits for, is left to leave. Usually there are none, which one call finds
-- out for all.
--
-- KEYS  for each claim its hold, then for each claim its line
-- ARGV  for each claim "p1 <id> <try> "
-- ->    for each claim 1 ended, or 0
local call = redis.call
local n = #ARGV
local lines = call('EXISTS', unpack(KEYS, n + 1)) > 0
local values = call('MGET', unpack(KEYS, 1, n))
local out, ended, seen = {}, {}, {}
for i, own in ipairs(ARGV) do
  local value, hold = values[i], KEYS[i]
  out[i] = 0
  if value and string.sub(value, 1, #own) == own and not seen[hold]
    and (not lines or call('EXISTS', KEYS[n + i]) == 0) then
    out[i], seen[hold] = 1, true -- whoever gives back twice is told so the second time
    ended[#ended + 1] = hold
  end
end
if ended[1] then call('DEL', unpack(ended)) end
return out
