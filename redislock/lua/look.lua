-- look: how a claim stands, with its life prolonged or not. It never makes one.
--
-- KEYS  1 the hold, 2 the line; beside them the sets of the line
-- ARGV  1 "p1 <id> <try> ", 2 ttl in ms, 3 whether to prolong
-- ->    the token: held; or a standing: 2 waits; or {0} unknown; or {5, ...}: waits, its
--       life was prolonged
local id, try = string.match(ARGV[1], '^p1 (%x+) (%d+) $')
local ttl = tonumber(ARGV[2])
me = id
settle()
local mine, alone = find(id)
if not mine or mine.try ~= try then
  save()
  return {0}
end
if alone then -- let in just now
  save()
  return mine.token
end
if ARGV[3] == '1' then
  touch()
  if mine.held then occupy(ttl) end
  add(lives, ms + ttl, id)
end
save()
if mine.held then return mine.token end
if ARGV[3] == '1' then return still(id) end
return standing(2, id, mine.token)
