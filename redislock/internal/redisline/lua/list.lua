-- list: the claims of one name, after settle, a part at a time: a line of 100 000 would
-- stop the server for half a second. Claims are read in the order of their expiries,
-- which beats only raise, so none that stays is missed; one may come twice.
--
-- KEYS  1 the hold, 2 the line, 3 the fence; then the sets of the line
-- ARGV  1 the expiry to begin with, 2 how many claims
-- ->    {the hold or '', its time left, the clock in us, where the next part begins or '', how
--       many claims of this one begin there, id, record, time left, id, ...}
settle()
save()
clamp()
local all = {}
if size[expiries] > 0 then
  local from = string.format('%.0f', math.max(ms, tonumber(ARGV[1]) or 0)) -- those before have expired
  all = call('ZRANGEBYSCORE', expiries, from, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2])
end
local out = {value or '', value and call('PTTL', main) or 0, now, '', 0}
for i = 1, #all, 2 do
  out[#out + 1] = all[i]
  out[#out + 1] = call('HGET', side, all[i])
  out[#out + 1] = all[i + 1] - ms
end
if #all == 2 * ARGV[2] then
  out[4] = all[#all]
  for i = #all, 2, -2 do
    if all[i] == out[4] then out[5] = out[5] + 1 end
  end
end
return out
