-- watch: departures from this name are told for a while, or no longer.
--
-- KEYS  1 the hold, 2 the line; beside them the sets of the line
-- ARGV  1 for how long, in ms; or 0 and 2 the end that was answered last: unless
--       somebody else has moved it, nobody watches any more
-- ->    {what tells one holder from the next, its time left in ms, the end}
settle()
if ARGV[1] ~= '0' then
  touch()
  watch = math.max(watch, ms + ARGV[1])
elseif watch == tonumber(ARGV[2]) then
  touch()
  watch = 0
end
save()
return {value and string.sub(value, 1, 64) or '', value and call('PTTL', main) or 0, string.format('%.0f', watch)}
