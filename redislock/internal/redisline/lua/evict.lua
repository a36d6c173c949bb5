-- evict: breaks exactly one claim, as a list has shown it.
--
-- KEYS  1 the hold, 2 the line, 3 the fence; then the sets of the line
-- ARGV  1 id, 2 try, 3 token, 4 whether it holds; for another client's hold: 1 empty,
--       2 the digest of its value
-- ->    1 broken, 0 it is not there, or has changed
if ARGV[1] == '' then
  if not value or value == shared or parse_hold(value) or redis.sha1hex(value) ~= ARGV[2] then return 0 end
  free_hold()
  settle()
  save()
  return 1
end
settle()
local found = 0
local h = value and parse_hold(value)
if h and h.id == ARGV[1] then
  if h.try == ARGV[2] and h.token == ARGV[3] and ARGV[4] == '1' then
    free_hold()
    found = 1
  end
else
  local r = find(ARGV[1])
  local held = ARGV[4] == '1'
  if r and r.try == ARGV[2] and r.held == held and (not held or r.token == ARGV[3]) then
    drop(r)
    notify(r, '0')
    found = 1
  end
end
if found == 1 then settle() end
save()
return found
