-- leave: a claim gives back its units or its place, and whoever fits then is let
-- in and told.
--
-- KEYS  1 the hold, 2 the line; beside them the sets of the line
-- ARGV  1 "p1 <id> <try> "
-- ->    1 ended, 0 there was nothing to end
local id, try = string.match(ARGV[1], '^p1 (%x+) (%d+) $')
me = id -- should its turn come now, it leaves all the same
local mine, alone = find(id)
if not alone then
  settle()
  mine, alone = find(id)
end
if not mine or tonumber(mine.try) > tonumber(try) then
  save()
  return 0
end
if alone then
  free()
else
  drop(mine)
end
settle()
save()
return 1
