-- instances.lua: the instances that wrote a heartbeat within the last minute, at most
-- 1000: for each the id, the age of its heartbeat in ms and its description.
local list = {}
local found = redis.call('ZRANGE', instances, 0, 999, 'WITHSCORES')
for i = 1, #found, 2 do
  list[#list + 1] = text(found[i])
  list[#list + 1] = whole(math.max(0, now - number(found[i + 1])))
  list[#list + 1] = text(redis.call('HGET', beats, found[i]))
end
return list
