-- instances.lua: the instances of the fleet, also those that are gone, at most 1000, the latest
-- heartbeat first: for each the id, the age of its heartbeat in ms and its description.
local list = {}
local found = redis.call('ZRANGE', instances, -1000, -1, 'WITHSCORES')
for i = #found - 1, 1, -2 do
  list[#list + 1] = text(found[i])
  list[#list + 1] = whole(math.max(0, now - number(found[i + 1])))
  list[#list + 1] = text(redis.call('HGET', beats, found[i]))
end
return list
