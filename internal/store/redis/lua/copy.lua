-- Copies the counters of a subject to another space, unless it has some. KEYS: the
-- subject's key there and here, then those of the logs of leak rules. ARGV: the instant
-- at which the copies expire at the latest, in ms since the epoch; 0 for none. Returns 1
-- if it copied.
if redis.call('COPY', KEYS[1], KEYS[2]) == 0 then
  return 0
end
for i = 3, #KEYS, 2 do
  redis.call('COPY', KEYS[i], KEYS[i + 1], 'REPLACE')
end
local till = tonumber(ARGV[1])
if till > 0 then
  local time = redis.call('TIME')
  local left = math.max(till - time[1] * 1000 - math.floor(time[2] / 1000), 1)
  for i = 2, #KEYS, 2 do
    if redis.call('PTTL', KEYS[i]) > left then
      redis.call('PEXPIRE', KEYS[i], string.format('%.0f', left))
    end
  end
end
return 1
