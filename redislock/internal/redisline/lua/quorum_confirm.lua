-- quorum_confirm: raises the node's fence to a token, if the grant still stands.
--
-- KEYS  1 the hold, 2 the line, 3 the fence, 4 the membership
-- ARGV  1 "p1 <id> <try> ", 2 the granted token, 3 the token, 4 the list of the client's
--       quorum, 5 the run id of the server that it enlisted at
-- ->    1, or 0; or {5} or {7}, see quorum.lua
local present, reply = voting_epoch(KEYS[4], ARGV[4], ARGV[5])
if not present then return reply end
local granted, token = ARGV[2], ARGV[3]
local last = redis.call('GET', KEYS[3]) or 0

-- stands reports whether the hold is still this grant, of this epoch.
local function stands(now, epoch, first) return epoch == present and (first ~= '' and first or now) == granted end

local function raise()
  if tonumber(last) < tonumber(token) then redis.call('SET', KEYS[3], token) end
end

local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
  local now, middle, epoch, first, note = string.match(value, '^(%d+) (%d+ %S+ %d+ %d+) \3(%d+),?(%d*)\3(.*)$', #ARGV[1] + 1)
  if not now or not stands(now, epoch, first) then return 0 end
  raise()
  if now ~= token then
    redis.call('SET', KEYS[1], table.concat({ARGV[1], token, ' ', middle, ' \3', epoch, ',', granted, '\3', note}), 'KEEPTTL')
  end
  return 1
end

-- Readers hold beside each other: no two may have the same token.
local id, try = string.match(ARGV[1], '^p1 (%x+) (%d+) $')
local record = redis.call('HGET', KEYS[2], id)
local head, known, now, middle, epoch, first, note =
  string.match(record or '', '^(1 %d+) (%d+) (%d+) ([^\2]*\2)\3(%d+),?(%d*)\3(.*)$')
local expiry = redis.call('ZSCORE', KEYS[2] .. '\1l', id)
if not head or known ~= try or not expiry or tonumber(expiry) < time_now() or not value then return 0 end
if not stands(now, epoch, first) then return 0 end
if now ~= token then
  if tonumber(token) <= tonumber(last) then return 0 end
  raise()
  redis.call('HSET', KEYS[2], id, table.concat({head, ' ', known, ' ', token, ' ', middle, '\3', epoch, ',', granted, '\3', note}))
end
return 1
