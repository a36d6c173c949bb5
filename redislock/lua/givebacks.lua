-- givebacks: giveback for many claims at once. One that is not held alone, or that
-- somebody waits for, is left to leave.
--
-- KEYS  for each claim its hold and its line
-- ARGV  for each claim "p1 <id> <try> "
-- ->    for each claim 1 ended, or 0
local call = redis.call
local out = {}
for i, own in ipairs(ARGV) do
  local hold = KEYS[2 * i - 1]
  out[i] = 0
  if call('EXISTS', KEYS[2 * i]) == 0 then
    local value = call('GET', hold)
    if value and string.sub(value, 1, #own) == own then
      out[i] = call('DEL', hold)
    end
  end
end
return out
