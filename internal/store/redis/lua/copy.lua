-- Copies the counters of a subject to another space, unless it has some. KEYS: the
-- subject's key there and here, the key of the instant of the copy, then those of the logs
-- of leak rules there and here. ARGV: the instant at which the copies expire at the latest,
-- in ms since the epoch, 0 for none; how long the instant of the copy is kept, in ms.
-- Returns 1 if it copied, else 0; and the age of the copy in ms, -1 without one that is
-- known.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('COPY', KEYS[1], KEYS[2]) == 0 then
  local at = tonumber(redis.call('GET', KEYS[3]) or '')
  return {0, at and math.max(now - at, 0) or -1}
end
redis.call('SET', KEYS[3], string.format('%.0f', now), 'PX', ARGV[2])
local copies = {KEYS[2]}
for i = 4, #KEYS, 2 do
  redis.call('COPY', KEYS[i], KEYS[i + 1], 'REPLACE')
  copies[#copies + 1] = KEYS[i + 1]
end
local till = tonumber(ARGV[1])
if till > 0 then
  local left = math.max(till - now, 1)
  for _, key in ipairs(copies) do
    if redis.call('PTTL', key) > left then
      redis.call('PEXPIRE', key, string.format('%.0f', left))
    end
  end
end
return {1, 0}
