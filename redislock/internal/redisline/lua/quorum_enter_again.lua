-- quorum_enter_again: a repeated Enter of a holder at a node of a quorum. It answers with
-- the token that was granted first, where enter would answer with that of the hold.
--
-- KEYS, ARGV  as quorum_enter.lua
-- ->    the token
do
  local value = redis.call('GET', KEYS[1])
  if value and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
    local token, granted = string.match(value, '^p1 %x+ %d+ (%d+) %d+ %S+ %d+ %d+ \3%d+,?(%d*)\3')
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
    return granted ~= '' and granted or token
  elseif value then -- it may be a reader
    local id, try = string.match(ARGV[1], '^p1 (%x+) (%d+) $')
    local record = redis.call('HGET', KEYS[2], id)
    local held, known, token, granted = string.match(record or '', '^(%d) %d+ (%d+) (%d+) [^\2]*\2\3%d+,?(%d*)\3')
    local expiry = redis.call('ZSCORE', KEYS[2] .. '\1l', id)
    local ms = time_now()
    if held == '1' and known == try and expiry and tonumber(expiry) >= ms then
      local ttl = tonumber(ARGV[3])
      redis.call('ZADD', KEYS[2] .. '\1l', ms + ttl, id)
      for _, key in ipairs({KEYS[1], KEYS[2], KEYS[2] .. '\1l'}) do
        if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
      end
      return granted ~= '' and granted or token
    end
  end
end

