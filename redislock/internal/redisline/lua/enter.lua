-- enter: a claim asks for its place, for the first time or again.
--
-- KEYS  1 the hold, 2 the line, 3 the fence; then the sets of the line
-- ARGV  1 "p1 <id> <try> ", 2 " <limit> <session> <ttl> 0 <note>", 3 ttl in ms,
--       4 "<need> <queue> <channel>", 5 a proposed token, if there is one
-- ->    the token: held; or a standing: 2 it waits, 3 it may not wait; or {0} a higher
--       Try is there; or {4} another limit is in use; or {8} it has only dropped expired
--       claims, and is to be called again
local id, try = string.match(ARGV[1], '^p1 (%x+) (%d+) $')
local mylimit, session, _, note = string.match(ARGV[2], '^ (%d+) (%S+) (%d+) 0 (.*)$')
local need, queue, channel = string.match(ARGV[4], '^(%d+) (%d) (.*)$')
local ttl, units = tonumber(ARGV[3]), tonumber(need)
local exclusive = units >= tonumber(mylimit)
caller = id

-- If the claim is known, this is a repeated call, or a late one, or it replaces a lower
-- Try.
settle()
local mine, is_holder = find(id)
if mine then
  if tonumber(mine.try) > tonumber(try) then
    save()
    return {0}
  end
  if mine.try == try then
    if is_holder then
      call('PEXPIREAT', main, expire_at(ttl))
    else
      begin_change()
      if mine.held then set_shared(ttl) end
      add(expiries, ms + ttl, id)
    end
    save()
    if is_holder or mine.held then return mine.token end
    return standing(2, id, mine.token)
  end
  if is_holder then
    free_hold()
  else
    drop(mine)
  end
  settle()
end

local other = not exclusive and count > 0 and limit ~= mylimit
local fitting = size[waiting] == 0 and fits(exclusive, units, mylimit)
if other or not fitting and queue == '0' then
  save()
  if unsettled then return {8} end -- it may be expired claims that are in the way
  return other and {4} or standing(3)
end

local stamp = us
if ARGV[5] then -- a proposal may not raise the fence by more than a second
  local most = math.min(tonumber(ARGV[5]), stamp + 1000000)
  stamp = ARGV[6] and most or math.max(stamp, most) -- the nodes of a quorum agree on the proposal, not on the time
end
local token = next_token(stamp) -- of a claim that waits, the number of its arrival

if fitting and exclusive then
  set_hold(ARGV[1] .. token .. ARGV[2], ttl)
  save()
  return token
end
begin_change() -- after the fence, which a server that is out of memory may refuse
local held = fitting and '1' or '0'
local text = table.concat({held, now, try, token, need, mylimit, ARGV[3], queue, session, channel .. '\2' .. note}, ' ')
if fitting then
  call('HSET', side, id, text)
else
  call('HSET', side, id, text, '#place', token)
end
add(expiries, ms + ttl, id)
if not exclusive then count, limit = count + 1, mylimit end
if fitting then
  used = used + units
  set_shared(ttl)
  save()
  return token
end
add(waiting, token, id)
save()
return standing(2, id, token)
