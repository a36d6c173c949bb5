-- watch: departures from this name are published for a while, or no longer.
--
-- KEYS  1 the hold, 2 the line, 3 the fence; then the sets of the line
-- ARGV  1 for how long, in ms; or 0 and 2 the end of the last reply: if no other watcher
--       has moved it, departures are not published any more
-- ->    {what differs between one holder and the next, its time left in ms, the end}
settle()
if ARGV[1] ~= '0' then
  begin_change()
  watch = math.max(watch, ms + ARGV[1])
elseif watch == tonumber(ARGV[2]) then
  begin_change()
  watch = 0
end
save()
return {value and string.sub(value, 1, 64) or '', value and call('PTTL', main) or 0, string.format('%.0f', watch)}
