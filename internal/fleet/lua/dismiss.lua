-- dismiss.lua: forgets an instance that is gone. ARGV after those of shared.lua: its id. It
-- returns gone and the description of the instance, or live or unknown.
local id = ARGV[3]
for _, other in ipairs(live()) do
  if other == id then
    return {'live', ''}
  end
end
local description = text(redis.call('HGET', beats, id))
if redis.call('ZREM', instances, id) == 0 then
  return {'unknown', ''}
end
redis.call('HDEL', beats, id)
return {'gone', description}
