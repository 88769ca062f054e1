-- Removes an exception. KEYS: the book and the version. ARGV: the new version, the place.
if redis.call('HDEL', KEYS[1], ARGV[2]) == 1 then
  redis.call('SET', KEYS[2], ARGV[1], 'PX', math.max(redis.call('PTTL', KEYS[1]), 60000))
end
return 'ok'
