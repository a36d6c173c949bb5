-- look_many: prolongs claims of one name that one session has. A claim that waits costs
-- a tenth of what it costs alone: what all have in common is read once.
--
-- KEYS  1 the hold, 2 the line, 3 the fence; then the sets of the line
-- ARGV  1 ttl in ms, then "p1 <id> <try> " of each claim
-- ->    for each claim what look replies when it prolongs. Of those that wait, only the first
--       few look at the line by themselves, which serves all: the others get {5, ttl}
local ttl = tonumber(ARGV[1])
settle()
local holder = value and parse_hold(value)
local ids, tries = {}, {}
for i = 2, #ARGV do
  ids[i - 1], tries[i - 1] = string.match(ARGV[i], '^p1 (%x+) (%d+) $')
end
local texts = call('HMGET', side, unpack(ids))
local out, scores, shares = {}, {}, false
for i, id in ipairs(ids) do
  local r = texts[i] and parse_record(id, texts[i])
  out[i] = {0}
  if holder and holder.id == id then
    if holder.try == tries[i] then
      call('PEXPIREAT', main, expire_at(ttl))
      out[i] = holder.token
    end
  elseif r and r.try == tries[i] and not over(id) then
    scores[#scores + 1], scores[#scores + 2] = ms + ttl, id
    shares = shares or r.held
    out[i] = r.held and r.token
  end
end
if scores[1] then
  begin_change()
  if shares then set_shared(ttl) end
  size[expiries] = size[expiries] + call('ZADD', expiries, unpack(scores))
end
save()
local head, alert = range(waiting, 0, 0)[1], 16
for i, id in ipairs(ids) do
  if not out[i] then -- it waits
    out[i] = {5, ttl}
    if id == head or alert > 0 then
      out[i], alert = still(id == head and 0 or 1), alert - 1
    end
  end
end
return out
