-- stop.lua: ends the running trial. ARGV after those of shared.lua: why. It returns 1, or
-- 0 if none runs.
if redis.call('HGET', trial, 'state') ~= 'running' then
  return 0
end
redis.call('HSET', trial, 'state', 'ended', 'detail', string.sub(ARGV[3], 1, 4096))
return 1
