-- vote: the head of enter at a node of a quorum. The note of the claim begins
-- with the epoch of its grant, between two marks, which confirm adds the granted
-- token to when it changes the hold's.
--
-- KEYS  1 the hold, 2 the line, 3 the fence, 4 the roll
-- ARGV  1 to 4 as enter.lua, 5 a proposed token, 6 the epoch that the client knows,
--       7 the list of the client's quorum, 8 "1" if this server may not have run the
--       script before
-- ->    as enter.lua, with the granted token; or {5} the node does not vote;
--       or {6, epoch} it votes in another epoch
if ARGV[8] then silence(KEYS[4]) end
do
  local roll = redis.call('HMGET', KEYS[4], 'votes', 'epoch', 'list')
  if roll[1] ~= '1' or roll[3] ~= ARGV[7] then return {5} end
  if roll[2] ~= ARGV[6] then return {6, roll[2]} end

  local own = string.sub(ARGV[1], 4)
  local value = redis.call('GET', KEYS[1])
  if not value then
    local need, limit = string.match(ARGV[4], '^%d+'), string.match(ARGV[2], '^ (%d+)')
    if tonumber(need) >= tonumber(limit) and redis.call('EXISTS', KEYS[2]) == 0 then
      local _, us = moment()
      local token = math.max((redis.call('GET', KEYS[3]) or 0) + 1, math.min(tonumber(ARGV[5]), us + 1000000))
      token = string.format('%.0f', token)
      redis.call('SET', KEYS[3], token)
      redis.call('SET', KEYS[1], ARGV[1] .. token .. ARGV[2], 'PX', ARGV[3])
      return token
    end
  elseif string.sub(value, 1, #ARGV[1]) == ARGV[1] then
    local token, granted = string.match(value, '^p1 %x+ %d+ (%d+) %d+ %S+ %d+ %d+ \3%d+,?(%d*)\3')
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
    return granted ~= '' and granted or token
  else -- a reader that asks again: enter would answer with its token
    local id, try = string.match(own, '^(%x+) (%d+) $')
    local record = redis.call('HGET', KEYS[2], id)
    local held, known, token, granted = string.match(record or '', '^(%d) %d+ (%d+) (%d+) [^\2]*\2\3%d+,?(%d*)\3')
    local life = redis.call('ZSCORE', KEYS[2] .. '\1l', id)
    local ms = moment()
    if held == '1' and known == try and life and tonumber(life) >= ms then
      local ttl = tonumber(ARGV[3])
      redis.call('ZADD', KEYS[2] .. '\1l', ms + ttl, id)
      for _, key in ipairs({KEYS[1], KEYS[2], KEYS[2] .. '\1l'}) do
        if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
      end
      return granted ~= '' and granted or token
    end
  end
end

