-- history.lua: the numbers of the history, the latest first. ARGV after those of
-- shared.lua: how many.
local list = {}
for i, one in ipairs(redis.call('ZREVRANGE', history, 0, number(ARGV[3]) - 1)) do
  list[i] = whole(number(one))
end
return list
