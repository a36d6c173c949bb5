-- leave: a claim gives back its units or its place; the claims that fit then are let in
-- and notified.
--
-- KEYS  1 the hold, 2 the line, 3 the fence; then the sets of the line
-- ARGV  1 "p1 <id> <try> "
-- ->    1 ended, 0 there was nothing to end
local id, try = string.match(ARGV[1], '^p1 (%x+) (%d+) $')
caller = id -- if it is let in just now, it leaves nevertheless
local mine, is_holder = find(id)
if not is_holder then
  settle()
  mine, is_holder = find(id)
end
if not mine or tonumber(mine.try) > tonumber(try) then
  save()
  return 0
end
if is_holder then
  free_hold()
else
  drop(mine)
end
settle()
save()
return 1
