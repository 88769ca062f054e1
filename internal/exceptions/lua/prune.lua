-- Removes exceptions that have ended. KEYS: the book. ARGV: for each its place and its text:
-- another one may be at the place by now.
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return 'ok'
