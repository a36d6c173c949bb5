-- line: what enter, leave, look, evict, list and watch share: the state of one
-- name, and the rule that lets claims in.
--
-- KEYS[1] is the hold, a string with an expiry, as SET NX PX makes it:
--   p1 <id> <try> <token> <limit> <session> <ttl> <since> <note>   one exclusive claim
--   p1 shared                                                      claims that share, below
--   anything else                                                  another client's hold
-- KEYS[2] is the line, a hash that exists while somebody waits, shares or watches:
--   <id>  <held> <since> <try> <token> <need> <limit> <ttl> <queue> <session> <channel>\2<note>
--   #used units held, #count claims that share, #limit theirs: sums of the records
--   #watch until when departures are told
--   #place the token of the last who came to wait: an older pawl counts places on from it
-- Beside it, declared as keys of every call, two sorted sets of ids:
--   ..\1w those who wait, by token; ..\1l all in the line, by the end of their life.
-- Times are the server's, in ms, since and tokens in us. The exclusive holder is
-- not in the line; a claim is dead when the clock is past the end of its life,
-- which is what Redis does to a key.
--
-- The server may end a script at any call: while a cluster moves a slot, a call
-- that touches a key which is not there fails. Two rules make that harmless.
-- The sums are removed before the first change and written after the last, so a
-- line without them is unfinished, and rebuild makes it anew from its records; so is
-- one with sums that cannot be right. And
-- a script does not touch a key again that it has removed: sets are counted, since
-- an empty one is no key, and a hold that ends is replaced, or deleted by save.
local call = redis.call
local main, side = KEYS[1], KEYS[2]
local waits, lives = side .. '\1w', side .. '\1l'
local shared = 'p1 shared'

local value = call('GET', main) -- first: it fails here if the key is no string
local stored = value -- the key is there; it may be for a hold that has ended
local clock = call('TIME')
local now = clock[1] .. string.sub('00000' .. clock[2], -6)
local ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
local me -- the claim this call is about: it is answered, not told
local departed, changed = false, false

local meta = call('HMGET', side, '#used', '#count', '#limit', '#watch')
local used, count = tonumber(meta[1] or 0), tonumber(meta[2] or 0)
local limit, watch = meta[3], tonumber(meta[4] or 0)
local size = {[waits] = call('ZCARD', waits), [lives] = call('ZCARD', lives)}

local function range(set, ...)
  if size[set] == 0 then return {} end
  return call('ZRANGE', set, ...)
end

local function add(set, score, id)
  size[set] = size[set] + call('ZADD', set, score, id)
end

local function remove(set, id)
  if size[set] > 0 then size[set] = size[set] - call('ZREM', set, id) end
end

-- rank is the place of a claim among those who wait.
local function rank(id)
  return size[waits] > 0 and call('ZRANK', waits, id)
end

-- touch comes before the first change of the line. It removes, which a server that
-- is out of memory still does, and then lets the script go on.
local function touch()
  if changed then return end
  changed = true
  call('HDEL', side, '#used', '#count', '#limit')
end

-- set writes the hold.
local function set(text, ttl)
  call('SET', main, text, 'PX', ttl)
  value, stored = text, true
end

-- free ends the hold.
local function free()
  value, departed = false, true
end

-- hold takes the string of an exclusive hold of ours apart.
local function hold(text)
  local h = {}
  h.id, h.try, h.token, h.limit, h.session, h.ttl = string.match(text, '^p1 (%x+) (%d+) (%d+) (%d+) (%S+) (%d+) %d+ ')
  return h.id and h
end

-- parse takes a claim of the line apart.
local function parse(id, text)
  local r = {id = id, text = text}
  local held
  held, r.rest, r.try, r.token, r.need, r.limit, r.ttl, r.session, r.channel, r.note =
    string.match(text, '^(%d) %d+ ((%d+) (%d+) (%d+) (%d+) (%d+) %d (%S+) ([^\2]*)\2(.*))$')
  if not held then return nil end
  r.held = held == '1'
  r.need, r.ttl = tonumber(r.need), tonumber(r.ttl)
  r.exclusive = r.need >= tonumber(r.limit)
  return r
end

-- record returns a claim of the line; nil if it is not there.
local function record(id)
  local text = call('HGET', side, id)
  return text and parse(id, text)
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

-- drop ends a claim of the line. Its life goes first: rebuild ends a claim that
-- has none, as this would have.
local function drop(r)
  touch()
  remove(lives, r.id)
  if not r.held then remove(waits, r.id) end
  call('HDEL', side, r.id)
  if not r.exclusive then count = count - 1 end
  if r.held then
    used = used - r.need
    if used == 0 and value == shared then free() end
  end
  departed = true
end

local rebuild

-- each calls what with the records of ids. Where one is gone, which no script of
-- ours does, the sums are wrong too.
local function each(ids, what)
  local missing = false
  for _, id in ipairs(ids) do
    local r = record(id)
    if r then what(r) else missing = true end
  end
  if missing then rebuild() end
end

-- occupy keeps other clients of the plain recipe out while claims share the name;
-- save says for how long.
local function occupy(ttl)
  if value ~= shared then set(shared, ttl) end
end

-- clamp repairs what a clock that was set back has made too long.
local function clamp()
  local last = range(lives, -1, -1, 'WITHSCORES')
  local r = last[1] and record(last[1])
  if r and tonumber(last[2]) > ms + r.ttl then
    each(range(lives, 0, -1), function(o) call('ZADD', lives, 'LT', ms + o.ttl, o.id) end)
    if value == shared then
      call('PEXPIRE', main, range(lives, -1, -1, 'WITHSCORES')[2] - ms)
    end
  end
  local h = value and hold(value)
  if h and call('PTTL', main) > tonumber(h.ttl) then
    call('PEXPIRE', main, h.ttl)
  end
end

-- admit lets a claim in. The hold goes first: a claim that has it is the holder,
-- whatever the line still says, and one for nobody ends with the next rebuild.
local function admit(r)
  touch()
  if r.exclusive then
    set(table.concat({'p1', r.id, r.try, r.token, r.limit, r.session, r.ttl, now, r.note}, ' '), r.ttl)
    remove(lives, r.id)
    call('HDEL', side, r.id)
  else
    occupy(r.ttl)
    call('HSET', side, r.id, '1 ' .. now .. ' ' .. r.rest)
    add(lives, ms + r.ttl, r.id)
    used = used + r.need
  end
  remove(waits, r.id)
  tell(r, r.token)
end

-- fits is the rule: a claim with nobody waiting ahead of it is let in if it and
-- those who hold fit. A hold of shared claims without any in the line is one
-- whose line somebody has removed, and lasts.
local function fits(exclusive, need, most)
  if exclusive then return not value end
  return (not value or value == shared and used > 0) and used + need <= tonumber(most)
end

-- rebuild makes an unfinished line anew from its records. A claim without a life
-- was about to enter or to leave, and one that has the hold was let in: they are
-- not in the line. One that neither holds nor waits was about to.
function rebuild()
  local all = call('HGETALL', side)
  if #all == 0 and size[lives] == 0 and size[waits] == 0 then return end
  touch()
  used, count, limit = 0, 0, nil
  local living, known = {}, {}
  for _, id in ipairs(range(lives, 0, -1)) do living[id] = true end
  local h = value and hold(value)
  for i = 1, #all, 2 do
    local id = all[i]
    local r = string.sub(id, 1, 1) ~= '#' and parse(id, all[i + 1])
    if r and living[id] and not (h and h.id == id) then
      known[id] = true
      if not r.exclusive then count, limit = count + 1, r.limit end
      if r.held then
        used = used + r.need
        remove(waits, id)
      else
        add(waits, r.token, id)
      end
    elseif string.sub(id, 1, 1) ~= '#' then
      call('HDEL', side, id)
    end
  end
  for id in pairs(living) do
    if not known[id] then remove(lives, id) end
  end
  for _, id in ipairs(range(waits, 0, -1)) do
    if not known[id] then remove(waits, id) end
  end
  if #all > 0 and used == 0 and value == shared then free() end
end

-- settle ends the dead and lets in, from the head of the line, whoever fits.
local function settle()
  if size[lives] > 0 then
    each(call('ZRANGEBYSCORE', lives, '-inf', '(' .. string.format('%.0f', ms)), drop)
  end
  if used > 0 and value ~= shared then -- the hold was deleted or taken: those who shared it have lost it
    each(range(lives, 0, -1), function(r) if r.held then drop(r) end end)
  end
  local full = false
  repeat
    local head = range(waits, 0, 0)
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
  if stored and not value then
    call('DEL', main)
    stored = false
  end
  if departed and watch > ms then publish(side .. '\1n', '') end
  if not changed then return end
  local last = tonumber(range(lives, -1, -1, 'WITHSCORES')[2] or 0)
  if last == 0 and watch <= ms then
    call('DEL', side)
    return
  end
  call('HSET', side, '#used', used, '#count', count, '#limit', limit or '', '#watch', watch)
  if used > 0 then call('PEXPIREAT', main, last) end
  last = math.max(last, watch)
  call('PEXPIREAT', side, last)
  if size[waits] > 0 then call('PEXPIREAT', waits, last) end
  if size[lives] > 0 then call('PEXPIREAT', lives, last) end
end

-- patience is for how long, in ms, a claim of that rank among those who wait need not
-- look: until somebody may die, and the first of them also until the hold may end.
local function patience(place, left)
  local first = range(lives, 0, 0, 'WITHSCORES')[2]
  local pause = first and first - ms + 1 or -1
  if value and (not place or place == 0) then -- those behind the first look when the first has died
    local look = left < 0 and 100 or left + 1 -- one without an end ends without a word
    if value ~= shared and not hold(value) then look = math.min(100, look) end
    if pause < 0 or look < pause then pause = look end
  end
  return pause
end

-- standing answers how a claim stands that is not held: its code, the claims
-- ahead of it, when to look again (ms), who is in the way: the hold with its time
-- left, or one of those who share; and last the token that the claim will hold with,
-- by which it knows word of it from word of a claim that was here before it.
local function standing(code, id, token)
  clamp()
  local ahead = size[lives]
  local place = id and rank(id)
  if place then ahead = ahead - size[waits] + place end
  local left = value and call('PTTL', main) or 0
  local alone = value and value ~= shared
  if alone then ahead = ahead + 1 end
  local pause = patience(place, left)
  if alone or not value then return {code, ahead, pause, value or '', left, token} end
  for _, other in ipairs(range(lives, 0, 7)) do
    local r = other ~= id and record(other)
    if r and r.held then
      return {code, ahead, pause, '', call('ZSCORE', lives, other) - ms, other, r.text, now, token}
    end
  end
  return {code, ahead, pause, '', left, token}
end

-- still answers for a claim that waits on what its next look depends on: when (ms),
-- and how the id of the one exclusive claim that holds begins.
local function still(id)
  clamp()
  local h = value and hold(value)
  return {5, patience(rank(id), value and call('PTTL', main) or 0), h and string.sub(h.id, 1, 8) or ''}
end

-- Those in the line who do not wait hold.
if not meta[1] or (used > 0) ~= (size[lives] > size[waits]) then rebuild() end
