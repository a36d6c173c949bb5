-- rights: which commands the user may run. It runs none of them.
--
-- ARGV  for each command the number of its words, then the words
-- ->    for each command 1 it may be run, 0 it may not, 2 the server does not know it
local out, i = {}, 1
while i <= #ARGV do
  local n = tonumber(ARGV[i])
  local known, allowed = pcall(redis.acl_check_cmd, unpack(ARGV, i + 1, i + n))
  out[#out + 1] = known and (allowed and 1 or 0) or 2
  i = i + n + 1
end
return out
