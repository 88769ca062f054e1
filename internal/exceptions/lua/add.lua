-- Adds exceptions, all or none. KEYS: the book and the version. ARGV: the new version, the
-- maximum number of exceptions, and for each its place, its text and its end in ms.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- Scripts replicate their effects: Redis 5 and 6 do so only if told, newer ones always.
pcall(redis.replicate_commands)

local function ended(text)
  local valid, exception = pcall(cjson.decode, text)
  if not valid or type(exception) ~= 'table' or type(exception['until']) ~= 'string' then
    return true
  end
  local y, mo, d, h, mi, s = string.match(exception['until'], '^(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)')
  if not y then
    return true
  end
  y, mo, d = tonumber(y), tonumber(mo), tonumber(d)
  if mo <= 2 then
    y, mo = y - 1, mo + 12
  end
  local days = 365 * y + math.floor(y / 4) - math.floor(y / 100) + math.floor(y / 400) + math.floor((153 * (mo - 3) + 2) / 5) + d - 1 - 719468
  return ((days * 24 + h) * 60 + mi) * 60000 + s * 1000 < now - 1000
end

local added = 0
for i = 3, #ARGV, 3 do
  local other = redis.call('HGET', KEYS[1], ARGV[i])
  if other and not ended(other) then
    return 'conflict ' .. ARGV[i] .. '\n' .. other
  end
  if not other then
    added = added + 1
  end
end
if redis.call('HLEN', KEYS[1]) + added > tonumber(ARGV[2]) then
  return 'full'
end
local expiry = redis.call('PTTL', KEYS[1])
for i = 3, #ARGV, 3 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  expiry = math.max(expiry, ARGV[i + 2] - now + 60000)
end
redis.call('PEXPIRE', KEYS[1], expiry)
redis.call('SET', KEYS[2], ARGV[1], 'PX', expiry)
return 'ok'
