-- line: what enter, leave, look, evict, list and watch share: the state of one
-- name, and the rule that lets claims in.
--
-- KEYS[1] is the hold, a string with an expiry, as SET NX PX makes it:
--   p1 <id> <try> <token> <limit> <session> <ttl> <since> <note>   one exclusive claim
--   p1 shared                                                      claims that share, below
--   anything else                                                  another client's hold
-- KEYS[2] is the line, a hash that exists while a claim waits or shares, or the name is watched:
--   <id>  <held> <since> <try> <token> <need> <limit> <ttl> <queue> <session> <channel>\2<note>
--         (while the claim waits, the token is the number of its arrival)
--   #used units held, #count claims that share, #limit of those: sums of the records
--   #watch until when departures are published
--   #place the number of the last claim that came to wait: older versions of pawl count on from it
-- KEYS[3] is the fence, the last token or number of an arrival: both are made from it.
-- Beside them, declared as keys of every call, two sorted sets of ids:
--   ..\1w the claims that wait, by arrival; ..\1l all claims of the line, by expiry.
-- Times are the server's, in ms; since and tokens are in us. The exclusive holder is
-- not in the line. A claim has expired when the clock is past its expiry, as a key of
-- Redis has.
--
-- The server may stop a script at any call: while a cluster moves a slot, a call on a
-- key that does not exist fails. Two rules make that harmless. The sums are removed
-- before the first change and written after the last, so a line without sums is
-- unfinished, and rebuild makes it anew from its records; so is a line whose sums
-- cannot be right. And a script does not touch a key again that it has removed: the
-- sets are counted, since an empty set does not exist, and a hold that ends is
-- replaced, or deleted by save.
--
-- Expiries are written as moments of the clock that the script has read, never as
-- durations. Redis 7.0 adds a duration to the time of the call, and judges by the time at
-- which the script began whether a key has expired: if the clock is set back in between
-- by more than the duration, the script deletes the key when it touches it again.
local call = redis.call
local main, side, fence = KEYS[1], KEYS[2], KEYS[3]
local waiting, expiries = side .. '\1w', side .. '\1l'
local shared = 'p1 shared'

local clock = call('TIME')
local value = call('GET', main) -- before any change: it fails here if the key is not a string
local stored = value -- the key exists; value is false once its hold has ended
local now = clock[1] .. string.sub('00000' .. clock[2], -6)
local ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
local us = clock[1] * 1000000 + clock[2]
local drops = 500 -- how many expired claims this call may drop: 100 000 would stop the server for seconds
local unsettled = false -- there are more of them, which further calls drop
local caller -- the id of the claim that this call is about: it gets the reply, not a message
local departed, changed = false, false

local meta = call('HMGET', side, '#used', '#count', '#limit', '#watch')
local used, count = tonumber(meta[1] or 0), tonumber(meta[2] or 0)
local limit, watch = meta[3], tonumber(meta[4] or 0)
local size = {[waiting] = call('ZCARD', waiting), [expiries] = call('ZCARD', expiries)}

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

-- rank returns the number of waiting claims ahead of a claim.
local function rank(id)
  return size[waiting] > 0 and call('ZRANK', waiting, id)
end

-- begin_change precedes the first change of the line. It removes fields, which a server
-- that is out of memory still permits, and then lets the script go on.
local function begin_change()
  if changed then return end
  changed = true
  call('HDEL', side, '#used', '#count', '#limit')
end

-- expire_at returns the moment in ttl ms.
local function expire_at(ttl)
  return string.format('%.0f', ms + ttl)
end

-- set_hold writes the hold.
local function set_hold(text, ttl)
  call('SET', main, text, 'PXAT', expire_at(ttl))
  value, stored = text, true
end

-- free_hold ends the hold.
local function free_hold()
  value, departed = false, true
end

-- parse_hold reads the value of an exclusive hold of pawl's.
local function parse_hold(text)
  local h = {}
  h.id, h.try, h.token, h.limit, h.session, h.ttl = string.match(text, '^p1 (%x+) (%d+) (%d+) (%d+) (%S+) (%d+) %d+ ')
  return h.id and h
end

-- parse_record reads a record of the line.
local function parse_record(id, text)
  local r = {id = id, text = text}
  local held
  held, r.try, r.token, r.rest, r.need, r.limit, r.ttl, r.session, r.channel, r.note =
    string.match(text, '^(%d) %d+ (%d+) (%d+) ((%d+) (%d+) (%d+) %d (%S+) ([^\2]*)\2(.*))$')
  if not held then return nil end
  r.held = held == '1'
  r.need, r.ttl = tonumber(r.need), tonumber(r.ttl)
  r.exclusive = r.need >= tonumber(r.limit)
  return r
end

-- record returns a claim of the line; nil if it is not there.
local function record(id)
  local text = call('HGET', side, id)
  return text and parse_record(id, text)
end

-- over reports whether a claim of the line has expired, and is not dropped yet.
local function over(id)
  return unsettled and tonumber(call('ZSCORE', expiries, id) or ms) < ms
end

-- find returns a claim, and whether it is the exclusive holder rather than in the line.
local function find(id)
  local h = value and parse_hold(value)
  if h and h.id == id then return h, true end
  return not over(id) and record(id), false
end

-- next_token returns a number above all that the fence has seen, and at least stamp.
local function next_token(stamp)
  local token = string.format('%.0f', math.max(stamp, (call('GET', fence) or 0) + 1))
  call('SET', fence, token)
  return token
end

-- publish must not stop a script half way where the user lacks the right: a waiter finds
-- a missed message by looking.
local function publish(channel, message)
  redis.pcall(string.find(channel, '\1{', 1, true) and 'SPUBLISH' or 'PUBLISH', channel, message)
end

-- notify tells a claim its token; '0' says that it must look.
local function notify(r, token)
  if r.id ~= caller then
    publish(r.channel, r.session .. ' ' .. r.id .. ' ' .. r.try .. ' ' .. token)
  end
end

-- drop_all ends claims of the line. Their expiries go first: rebuild drops a claim that has
-- none, as this would have.
local function drop_all(records)
  if not records[1] then return end
  local ids = {}
  for i, r in ipairs(records) do ids[i] = r.id end
  begin_change()
  if size[expiries] > 0 then size[expiries] = size[expiries] - call('ZREM', expiries, unpack(ids)) end
  if size[waiting] > 0 then size[waiting] = size[waiting] - call('ZREM', waiting, unpack(ids)) end
  call('HDEL', side, unpack(ids))
  for _, r in ipairs(records) do
    if not r.exclusive then count = count - 1 end
    if r.held then
      used = used - r.need
      if used == 0 and value == shared then free_hold() end
    end
  end
  departed = true
end

local function drop(r)
  drop_all({r})
end

local rebuild

-- each calls f with the records of ids, part by part. A record that is missing, which no
-- script of pawl's leaves, makes the sums wrong too.
local function each(ids, f)
  local missing = false
  for i = 1, #ids, 500 do
    local part, found = {unpack(ids, i, math.min(i + 499, #ids))}, {}
    for k, text in ipairs(call('HMGET', side, unpack(part))) do
      found[#found + 1] = text and parse_record(part[k], text) or nil
    end
    missing = missing or #found < #part
    f(found)
  end
  if missing then rebuild() end
end

-- set_shared keeps other clients of the plain recipe out while claims share the name;
-- save sets the expiry.
local function set_shared(ttl)
  if value ~= shared then set_hold(shared, ttl) end
end

-- clamp shortens expiries that are too long because the clock was set back, and those
-- that an operator removed from holds of pawl's. No holder was promised more than its TTL
-- from now.
local function clamp()
  local last = range(expiries, -1, -1, 'WITHSCORES')
  local r = last[1] and record(last[1])
  if r and tonumber(last[2]) > ms + r.ttl then
    each(range(expiries, 0, -1), function(all)
      for _, o in ipairs(all) do call('ZADD', expiries, 'LT', ms + o.ttl, o.id) end
    end)
    if value == shared then
      call('PEXPIREAT', main, range(expiries, -1, -1, 'WITHSCORES')[2])
    end
  end
  local h = value and parse_hold(value)
  local left = (h or value == shared and used > 0) and call('PTTL', main) or 0
  if h and (left > tonumber(h.ttl) or left < 0) then
    call('PEXPIREAT', main, expire_at(h.ttl))
  elseif left < 0 then
    call('PEXPIREAT', main, range(expiries, -1, -1, 'WITHSCORES')[2])
  end
end

-- admit lets a claim in. Its token is made now and not when it arrived: a replica that
-- was promoted with the claim in its line does not know who held the name at the old
-- master since. The hold is written first: a claim that has it is the holder, whatever
-- the line still says, and a shared hold without claims ends with the next rebuild.
local function admit(r)
  begin_change()
  local token = next_token(us)
  if r.exclusive then
    set_hold(table.concat({'p1', r.id, r.try, token, r.limit, r.session, r.ttl, now, r.note}, ' '), r.ttl)
    remove(expiries, r.id)
    call('HDEL', side, r.id)
  else
    set_shared(r.ttl)
    call('HSET', side, r.id, table.concat({'1', now, r.try, token, r.rest}, ' '))
    add(expiries, ms + r.ttl, r.id)
    used = used + r.need
  end
  remove(waiting, r.id)
  notify(r, token)
end

-- fits is the rule: a claim with none waiting ahead of it is let in if it fits beside
-- the holders. A shared hold without claims in the line is one whose line was deleted,
-- and stays until it expires.
local function fits(exclusive, need, most)
  if exclusive then return not value end
  return (not value or value == shared and used > 0) and used + need <= tonumber(most)
end

-- rebuild makes an unfinished line anew from its records. A claim without an expiry was
-- about to enter or to leave, and a claim that has the hold was let in: neither is in
-- the line. A claim that neither holds nor waits was about to wait.
function rebuild()
  local all = call('HGETALL', side)
  if #all == 0 and size[expiries] == 0 and size[waiting] == 0 then return end
  begin_change()
  used, count, limit = 0, 0, nil
  local living, known = {}, {}
  for _, id in ipairs(range(expiries, 0, -1)) do living[id] = true end
  local h = value and parse_hold(value)
  for i = 1, #all, 2 do
    local id = all[i]
    local r = string.sub(id, 1, 1) ~= '#' and parse_record(id, all[i + 1])
    if r and living[id] and not (h and h.id == id) then
      known[id] = true
      if not r.exclusive then count, limit = count + 1, r.limit end
      if r.held then
        used = used + r.need
        remove(waiting, id)
      else
        add(waiting, r.token, id)
      end
    elseif string.sub(id, 1, 1) ~= '#' then
      call('HDEL', side, id)
    end
  end
  for id in pairs(living) do
    if not known[id] then remove(expiries, id) end
  end
  for _, id in ipairs(range(waiting, 0, -1)) do
    if not known[id] then remove(waiting, id) end
  end
  if #all > 0 and used == 0 and value == shared then free_hold() end
end

-- expire drops expired claims, no more than this call may; those that are left wait for the
-- next call, and count as ended until then.
local function expire()
  local ids = {}
  if size[expiries] > 0 then
    ids = call('ZRANGEBYSCORE', expiries, '-inf', '(' .. string.format('%.0f', ms), 'LIMIT', 0, drops + 1)
  end
  unsettled = #ids > drops
  if unsettled then ids[#ids] = nil end
  drops = drops - #ids
  each(ids, drop_all)
  if used > 0 and value ~= shared then -- the hold was deleted or taken: the claims that shared it have lost it
    each(range(expiries, 0, -1), function(all)
      local lost = {}
      for _, r in ipairs(all) do
        if r.held then lost[#lost + 1] = r end
      end
      drop_all(lost)
    end)
  end
end

-- settle drops expired claims and lets in, from the head of the line, those that fit.
local function settle()
  expire()
  local full = false
  repeat
    local head = range(waiting, 0, 0)
    each(head, function(first)
      local r = first[1]
      full = r and (over(r.id) or not fits(r.exclusive, r.need, r.limit)) -- one that is over is dropped by the next call
      if r and not full then
        admit(r)
        full = r.exclusive
      end
    end)
  until full or #head == 0
end

-- save writes what has changed. The keys of the line expire with the last claim in
-- them, so that a line of dead clients disappears without a call. So does a shared hold:
-- otherwise it could outlive its claims by the TTL of one that has left.
local function save()
  if stored and not value then
    call('DEL', main)
    stored = false
  end
  if departed and watch > ms then publish(side .. '\1n', '') end
  if not changed then return end
  local last = tonumber(range(expiries, -1, -1, 'WITHSCORES')[2] or 0)
  if last == 0 and watch <= ms then
    call('DEL', side)
    return
  end
  call('HSET', side, '#used', used, '#count', count, '#limit', limit or '', '#watch', watch)
  if used > 0 then call('PEXPIREAT', main, last) end
  last = math.max(last, watch)
  call('PEXPIREAT', side, last)
  if size[waiting] > 0 then call('PEXPIREAT', waiting, last) end
  if size[expiries] > 0 then call('PEXPIREAT', expiries, last) end
end

-- recheck returns for how many ms a claim with this rank need not look: until a claim of
-- the line may expire, and the first waiter also until the hold may.
local function recheck(place, left)
  if unsettled then return 1 end
  local first = range(expiries, 0, 0, 'WITHSCORES')[2]
  local pause = first and first - ms + 1 or -1
  if value and (not place or place == 0) then -- those behind the first look when the first has expired
    local look = left < 0 and 100 or left + 1 -- a hold without expiry ends without a message
    if value ~= shared and not parse_hold(value) then look = math.min(100, look) end
    if pause < 0 or look < pause then pause = look end
  end
  return pause
end

-- standing is the reply for a claim that is not held: a code, the claims ahead of it,
-- when to look again (ms), the blocker: the hold with its time left, or one of the
-- claims that share; and last the number of the claim's arrival. By that a waiter tells
-- its grant, whose token is higher, from that of an earlier claim with the same id.
local function standing(code, id, arrival)
  clamp()
  local ahead = size[expiries]
  local place = id and rank(id)
  if place then ahead = ahead - size[waiting] + place end
  local left = value and call('PTTL', main) or 0
  local exclusive = value and value ~= shared
  if exclusive then ahead = ahead + 1 end
  local pause = recheck(place, left)
  if exclusive or not value then return {code, ahead, pause, value or '', left, arrival} end
  for _, other in ipairs(size[expiries] > 0 and call('ZRANGEBYSCORE', expiries, ms, '+inf', 'LIMIT', 0, 8) or {}) do
    local r = other ~= id and record(other)
    if r and r.held then
      return {code, ahead, pause, '', call('ZSCORE', expiries, other) - ms, other, r.text, now, arrival}
    end
  end
  return {code, ahead, pause, '', left, arrival}
end

-- still is the reply to the beat of a claim that waits, with its place among those, on
-- which its next look depends: when (ms), and the first characters of the id of an
-- exclusive holder.
local function still(place)
  clamp()
  local h = value and parse_hold(value)
  return {5, recheck(place, value and call('PTTL', main) or 0), h and string.sub(h.id, 1, 8) or ''}
end

-- The claims of the line that do not wait hold.
if not meta[1] or (used > 0) ~= (size[expiries] > size[waiting]) then rebuild() end
