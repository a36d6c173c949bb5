-- list: all claims of one name, after settle.
--
-- KEYS  1 the hold, 2 the line, 3 the fence; then the sets of the line
-- ->    {the hold or '', its time left, the clock in us, id, record, time left, id, ...}
settle()
save()
clamp()
local out = {value or '', value and call('PTTL', main) or 0, now}
local all = range(expiries, 0, -1, 'WITHSCORES')
for i = 1, #all, 2 do
  out[#out + 1] = all[i]
  out[#out + 1] = call('HGET', side, all[i])
  out[#out + 1] = all[i + 1] - ms
end
return out
