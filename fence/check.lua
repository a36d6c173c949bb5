-- Raises the mark of a resource to a holder's token and runs a command, unless a
-- later holder has begun.
--
-- KEYS[1]  the marks: a hash of "write" and "read"
-- ARGV     "write" or "read", token, [command …]
-- -> "ok REPLY", or "stale WRITER READER"
--
-- Tokens are strings of 20 digits and are compared as such: a number of Lua has 53
-- bits, a token has up to 63.
local mode, token = ARGV[1], ARGV[2]
local none = string.rep('0', 20)
local writer = redis.call('HGET', KEYS[1], 'write') or none
local reader = redis.call('HGET', KEYS[1], 'read') or none
local passes
if mode == 'write' then
  passes = token >= writer and token > reader
else
  passes = token > writer
end
if not passes then
  return 'stale ' .. writer .. ' ' .. reader
end
if mode == 'write' and token ~= writer or mode == 'read' and token > reader then
  redis.call('HSET', KEYS[1], mode, token)
end
if #ARGV == 2 then
  return 'ok '
end
local reply = redis.call(unpack(ARGV, 3))
if type(reply) == 'table' and reply.ok then
  reply = reply.ok
end
if type(reply) == 'number' then
  reply = string.format('%.0f', reply) -- what .. makes of it has 14 digits
elseif type(reply) ~= 'string' then
  reply = ''
end
return 'ok ' .. reply
