-- leave_many: claims of one name give back their units or their places, and then those
-- that fit are let in: none of the claims that leave.
--
-- KEYS  1 the hold, 2 the line, 3 the fence; then the sets of the line
-- ARGV  "p1 <id> <try> " of each claim
-- ->    for each claim 1 ended, 0 there was nothing to end
expire()
local ids, tries, at, out = {}, {}, {}, {}
for i, prefix in ipairs(ARGV) do
  ids[i], tries[i] = string.match(prefix, '^p1 (%x+) (%d+) $')
  at[ids[i]], out[i] = i, 0
end
local h = value and parse_hold(value)
local i = h and at[h.id]
if i and tonumber(h.try) <= tonumber(tries[i]) then
  free_hold()
  out[i] = 1
end
local ending = {}
for i, text in ipairs(call('HMGET', side, unpack(ids))) do
  local r = text and at[ids[i]] == i and parse_record(ids[i], text)
  if r and tonumber(r.try) <= tonumber(tries[i]) and not over(r.id) then
    ending[#ending + 1], out[i] = r, 1
  end
end
drop_all(ending)
settle()
save()
return out
