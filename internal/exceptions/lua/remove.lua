-- Removes an exception. KEYS: the book and the version. ARGV: the new version, the place, the ID:
-- another exception may be at the place by now.
local text = redis.call('HGET', KEYS[1], ARGV[2])
local valid, exception = pcall(cjson.decode, text)
if not valid or type(exception) ~= 'table' or exception['id'] ~= ARGV[3] then
  return 'unknown'
end
redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('SET', KEYS[2], ARGV[1], 'PX', math.max(redis.call('PTTL', KEYS[1]), 60000))
return 'ok'
