-- line: what enter, leave, look, evict, list and watch share: the state of one
-- name, and the rule that lets claims in.
--
-- KEYS[1] is the hold, a string with an expiry, as SET NX PX makes it:
--   p1 <id> <try> <token> <limit> <session> <ttl> <since> <note>   one exclusive claim
--   p1 shared                                                      claims that share, below
--   anything else                                                  another client's hold
-- KEYS[2] is the line, a hash that exists while somebody waits, shares or watches:
--   <id>  <held> <since> <try> <token> <need> <limit> <ttl> <queue> <session> <channel>\2<note>
--   #used units held, #count claims that share, #limit theirs, #place the last place,
--   #watch until when departures are told
-- Beside it, in its slot by its own name, two sorted sets of ids:
--   ..\1w those who wait, by place; ..\1l all in the line, by the end of their life.
-- Times are the server's, in ms, since and tokens in us. The exclusive holder is
-- not in the line; a claim is dead when the clock is past the end of its life,
-- which is what Redis does to a key.
local call = redis.call
local main, side = KEYS[1], KEYS[2]
local waits, lives = side .. '\1w', side .. '\1l'
local shared = 'p1 shared'

local value = call('GET', main) -- first: it fails here if the key is no string
local clock = call('TIME')
local now = clock[1] .. string.sub('00000' .. clock[2], -6)
local ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
local me -- the claim this call is about: it is answered, not told
local departed, changed = false, false

local meta = call('HMGET', side, '#used', '#count', '#limit', '#place', '#watch')
local used, count = tonumber(meta[1] or 0), tonumber(meta[2] or 0)
local limit, place = meta[3], tonumber(meta[4] or 0)
local watch = tonumber(meta[5] or 0)

-- hold takes the string of an exclusive hold of ours apart.
local function hold(text)
  local h = {}
  h.id, h.try, h.token, h.limit, h.session, h.ttl = string.match(text, '^p1 (%x+) (%d+) (%d+) (%d+) (%S+) (%d+) %d+ ')
  return h.id and h
end

-- record takes a claim of the line apart; nil if it is not there.
local function record(id)
  local text = call('HGET', side, id)
  if not text then return nil end
  local r = {id = id, text = text}
  local held
  held, r.rest, r.try, r.token, r.need, r.limit, r.ttl, r.session, r.channel, r.note =
    string.match(text, '^(%d) %d+ ((%d+) (%d+) (%d+) (%d+) (%d+) %d (%S+) ([^\2]*)\2(.*))$')
  r.held = held == '1'
  r.need, r.ttl = tonumber(r.need), tonumber(r.ttl)
  r.exclusive = r.need >= tonumber(r.limit)
  return r
end

-- find looks for a claim as the holder and in the line.
local function find(id)
  local h = value and hold(value)
  if h and h.id == id then return h, true end
  return record(id), false
end

-- publish must not end a script half way where the user may not: a notice that
-- is missed is found by looking.
local function publish(channel, message)
  redis.pcall(string.find(channel, '\1{', 1, true) and 'SPUBLISH' or 'PUBLISH', channel, message)
end

local function tell(r, token)
  if r.id ~= me then
    publish(r.channel, r.session .. ' ' .. r.id .. ' ' .. r.try .. ' ' .. token)
  end
end

-- vacate frees the hold once the last of those who shared it is gone.
local function vacate()
  if used == 0 and value == shared then
    call('DEL', main)
    value = false
  end
end

local function drop(r)
  call('HDEL', side, r.id)
  call('ZREM', lives, r.id)
  if not r.exclusive then count = count - 1 end
  if r.held then
    used = used - r.need
    vacate()
  else
    call('ZREM', waits, r.id)
  end
  departed, changed = true, true
end

-- each calls what with the records of ids. One whose record is gone, which no
-- script of ours does, is taken out of the line.
local function each(ids, what)
  for _, id in ipairs(ids) do
    local r = record(id)
    if r then
      what(r)
    else
      call('ZREM', lives, id)
      call('ZREM', waits, id)
    end
  end
end

-- occupy keeps other clients of the plain recipe out while claims share the name;
-- save says for how long.
local function occupy(ttl)
  if value ~= shared then
    call('SET', main, shared, 'PX', ttl)
    value = shared
  end
end

-- clamp repairs what a clock that was set back has made too long.
local function clamp()
  local last = call('ZRANGE', lives, -1, -1, 'WITHSCORES')
  local r = last[1] and record(last[1])
  if r and tonumber(last[2]) > ms + r.ttl then
    each(call('ZRANGE', lives, 0, -1), function(o) call('ZADD', lives, 'LT', ms + o.ttl, o.id) end)
    if value == shared then
      call('PEXPIRE', main, call('ZRANGE', lives, -1, -1, 'WITHSCORES')[2] - ms)
    end
  end
  local h = value and hold(value)
  if h and call('PTTL', main) > tonumber(h.ttl) then
    call('PEXPIRE', main, h.ttl)
  end
end

local function admit(r)
  call('ZREM', waits, r.id)
  changed = true
  if r.exclusive then
    call('HDEL', side, r.id)
    call('ZREM', lives, r.id)
    value = table.concat({'p1', r.id, r.try, r.token, r.limit, r.session, r.ttl, now, r.note}, ' ')
    call('SET', main, value, 'PX', r.ttl)
  else
    call('HSET', side, r.id, '1 ' .. now .. ' ' .. r.rest)
    call('ZADD', lives, ms + r.ttl, r.id)
    used = used + r.need
    occupy(r.ttl)
  end
  tell(r, r.token)
end

-- fits is the rule: a claim with nobody waiting ahead of it is let in if it and
-- those who hold fit. A hold of shared claims without any in the line is one
-- whose line somebody has removed, and lasts.
local function fits(exclusive, need, size)
  if exclusive then return not value end
  return (not value or value == shared and used > 0) and used + need <= tonumber(size)
end

-- settle ends the dead and lets in, from the head of the line, whoever fits.
-- Removing comes before setting: a server that is out of memory lets a script
-- that has already written go on.
local function settle()
  each(call('ZRANGEBYSCORE', lives, '-inf', '(' .. string.format('%.0f', ms)), drop)
  if used > 0 and value ~= shared then -- the hold was deleted or taken: those who shared it have lost it
    each(call('ZRANGE', lives, 0, -1), function(r) if r.held then drop(r) end end)
  end
  local full = false
  repeat
    local head = call('ZRANGE', waits, 0, 0)
    each(head, function(r)
      full = not fits(r.exclusive, r.need, r.limit)
      if not full then
        admit(r)
        full = r.exclusive
      end
    end)
  until full or #head == 0
end

-- save writes what has changed. The line's keys live as long as the longest
-- lived claim in them, so that a line of the dead ends without anybody; so does
-- the hold of those who share, or it would outlive them by the life of one that
-- has left.
local function save()
  if departed and watch > ms then publish(side .. '\1n', '') end
  if not changed then return end
  local last = tonumber(call('ZRANGE', lives, -1, -1, 'WITHSCORES')[2] or 0)
  if last == 0 and watch <= ms then
    call('DEL', side, waits, lives)
    return
  end
  call('HSET', side, '#used', used, '#count', count, '#limit', limit or '', '#place', place, '#watch', watch)
  if used > 0 then call('PEXPIREAT', main, last) end
  last = math.max(last, watch)
  call('PEXPIREAT', side, last)
  call('PEXPIREAT', waits, last)
  call('PEXPIREAT', lives, last)
end

-- patience is for how long, in ms, a claim of that rank among those who wait need not
-- look: until somebody may die, and the first of them also until the hold may end.
local function patience(rank, left)
  local first = call('ZRANGE', lives, 0, 0, 'WITHSCORES')[2]
  local pause = first and first - ms + 1 or -1
  if value and (not rank or rank == 0) then -- those behind the first look when the first has died
    local look = left < 0 and 100 or left + 1 -- one without an end ends without a word
    if value ~= shared and not hold(value) then look = math.min(100, look) end
    if pause < 0 or look < pause then pause = look end
  end
  return pause
end

-- standing answers how a claim stands that is not held: its code, the claims
-- ahead of it, when to look again (ms), and who is in the way: the hold with
-- its time left, or one of those who share.
local function standing(code, id)
  clamp()
  local ahead = call('ZCARD', lives)
  local rank = id and call('ZRANK', waits, id)
  if rank then ahead = ahead - call('ZCARD', waits) + rank end
  local left = value and call('PTTL', main) or 0
  local alone = value and value ~= shared
  if alone then ahead = ahead + 1 end
  local pause = patience(rank, left)
  if alone or not value then return {code, ahead, pause, value or '', left} end
  for _, other in ipairs(call('ZRANGE', lives, 0, 7)) do
    local r = other ~= id and record(other)
    if r and r.held then
      return {code, ahead, pause, '', call('ZSCORE', lives, other) - ms, other, r.text, now}
    end
  end
  return {code, ahead, pause, '', left}
end

-- still answers for a claim that waits on what its next look depends on: when (ms),
-- and how the id of the one exclusive claim that holds begins.
local function still(id)
  clamp()
  local h = value and hold(value)
  return {5, patience(call('ZRANK', waits, id), value and call('PTTL', main) or 0), h and string.sub(h.id, 1, 8) or ''}
end
