-- rights: which commands the user may not run, of those that keep and give back what
-- enter grants. It runs none of them. Servers before Redis 7 cannot tell.
--
-- ARGV  1 a key
-- ->    {those that every claim needs, those that a claim needs that shares}
local key, out = ARGV[1], {'', ''}
local needed = {
  {{'exists', key}, {'get', key}, {'del', key}, {'pexpire', key, '1'}},
  {
    {'time'}, {'set', key, 'x'}, {'pexpireat', key, '1'}, {'pttl', key}, {'hget', key, 'f'}, {'hmget', key, 'f'},
    {'hset', key, 'f', 'x'}, {'hdel', key, 'f'}, {'zadd', key, '1', 'm'}, {'zrem', key, 'm'}, {'zcard', key},
    {'zrange', key, '0', '1'}, {'zrangebyscore', key, '0', '1'},
  },
}
for i, commands in ipairs(needed) do
  for _, words in ipairs(commands) do
    local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
    if known and not allowed then out[i] = out[i] .. ' +' .. words[1] end
  end
end
return out
