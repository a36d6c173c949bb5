-- look: how a claim stands; it may prolong the claim, and never creates one.
--
-- KEYS  1 the hold, 2 the line, 3 the fence; then the sets of the line
-- ARGV  1 "p1 <id> <try> ", 2 ttl in ms, 3 whether to prolong
-- ->    the token: held; or a standing: 2 it waits; or {0} unknown; or {5, ...}: it waits
--       and was prolonged, see still
local id, try = string.match(ARGV[1], '^p1 (%x+) (%d+) $')
local ttl = tonumber(ARGV[2])
caller = id
settle()
local mine, is_holder = find(id)
if not mine or mine.try ~= try then
  save()
  return {0}
end
if is_holder then -- let in just now
  save()
  return mine.token
end
if ARGV[3] == '1' then
  begin_change()
  if mine.held then set_shared(ttl) end
  add(expiries, ms + ttl, id)
end
save()
if mine.held then return mine.token end
if ARGV[3] == '1' then return still(rank(id)) end
return standing(2, id, mine.token)
