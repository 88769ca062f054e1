-- Removes exceptions. KEYS: the book and the version. ARGV: the new version, and for each its
-- place and its text: another one may be at the place by now.
local removed = 0
for i = 2, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    removed = removed + redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
if removed > 0 then
  redis.call('SET', KEYS[2], ARGV[1], 'PX', math.max(redis.call('PTTL', KEYS[1]), 60000))
end
return 'ok'
