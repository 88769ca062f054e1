-- shared.lua: what the scripts of published rules have in common. It precedes each.
-- KEYS are those of `keys` in Go, in this order; all have one hash tag.
local head, proposal, answers, instances, beats, history, trial =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local begin, spare = ARGV[1], tonumber(ARGV[2])

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

-- text returns a value of a key, at most 4096 bytes of it: what is stored may be hostile.
local function text(value)
  if not value then
    return ''
  end
  return string.sub(tostring(value), 1, 4096)
end

-- number returns a whole number 0 ... 2^53 - 1, or 0 for anything else.
local function number(value)
  local n = tonumber(value or '0') or 0
  if n ~= n or n < 0 or n > 9007199254740991 then
    return 0
  end
  return math.floor(n)
end

local function whole(n)
  return string.format('%.0f', n)
end

-- list_time is the time for which Redis keeps the list of instances after the last heartbeat of
-- any of them: 7 days.
local list_time = 604800000

-- live returns the ids of the instances that wrote a heartbeat within three seconds, at most
-- 1000. A heartbeat of a later time, but for the clock of another master, is none.
local function live()
  return redis.call('ZRANGEBYSCORE', instances, whole(now - 3000), whole(now + 3000), 'LIMIT', 0, 1000)
end

-- over reports whether a deadline has passed, or is none: the longest is ten minutes.
local function over(deadline)
  return now > deadline or deadline > now + 600000
end

-- blobs calls f with the key and the size of each blob in a text such as sum:12,sum:7.
local function blobs(list, f)
  for sum, size in string.gmatch(list, '(%x+):(%d+)') do
    local problem = f(begin .. 'blob:' .. sum, tonumber(size))
    if problem then
      return sum
    end
  end
  return nil
end

-- missing returns the hash of a blob that is not there in its size, or nil. Its pieces are
-- those of `piecesOf` in Go.
local function missing(list)
  return blobs(list, function(key, size)
    local last = math.max(1, math.ceil(size / 262144)) - 1
    return redis.call('HLEN', key) ~= last + 1 or redis.call('HSTRLEN', key, whole(last)) ~= size - last * 262144
  end)
end

-- finish ends the proposal with an outcome that its publisher reads.
local function finish(n, state, detail, at)
  local key = begin .. 'outcome:' .. whole(n)
  redis.call('HSET', key, 'state', state, 'detail', string.sub(detail, 1, 4096), 'at', whole(at or 0))
  redis.call('PEXPIRE', key, 3600000)
  redis.call('DEL', proposal, answers)
  local tried = redis.call('HMGET', trial, 'number', 'state')
  if number(tried[1]) == n and tried[2] == 'ended' then
    redis.call('HSET', trial, 'detail', 'its time was over; its publish is ' .. state .. (detail ~= '' and ': ' .. string.sub(detail, 1, 4000) or ''))
  end
end

-- sum_of returns the SHA-1 of the record of a version in force, or an empty text if an older
-- program brought it into force.
local function sum_of(n, value)
  local of, sum = string.match(text(value), '^(%d+):(%x+)$')
  return of == whole(n) and sum or ''
end

-- standing returns what head holds, by which a proposal recognizes that nothing has changed
-- since its publisher looked.
local function standing()
  local state = redis.call('HMGET', head, 'in_force', 'last', 'sum')
  return text(state[1]) .. '|' .. text(state[2]) .. '|' .. text(state[3])
end

-- signature_of returns the first line of the record of a version, or an empty text.
local function signature_of(n)
  local line = redis.pcall('GETRANGE', begin .. 'version:' .. whole(n), 0, 255)
  return type(line) == 'string' and string.match(line, '^([^\n]*)\n') or ''
end

-- report returns the time and the state of the fleet, in the order of Go's stateOf.
local function report()
  local state = redis.call('HMGET', head, 'in_force', 'at', 'last', 'sum')
  local tried = redis.call('HMGET', trial, 'number', 'state', 'sum')
  local proposed = redis.call('HMGET', proposal, 'number', 'sum')
  return {whole(now), whole(number(state[1])), whole(number(state[2])), whole(number(state[3])), whole(number(proposed[1])),
    whole(number(tried[1])), text(tried[2]), sum_of(number(state[1]), state[4]), text(proposed[2]), text(tried[3]),
    signature_of(number(state[1])), standing()}
end
