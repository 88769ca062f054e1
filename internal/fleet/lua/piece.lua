-- piece.lua: one piece of a content, or false if it has another size. KEYS: the blob. ARGV:
-- the number of the piece, and its size in bytes.
if redis.call('HSTRLEN', KEYS[1], ARGV[1]) ~= tonumber(ARGV[2]) or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return false
end
return redis.call('HGET', KEYS[1], ARGV[1])
