-- beat.lua: the heartbeat of an instance, and the step that brings a version into force.
-- ARGV after those of shared.lua: id, description, highest number that the instance has
-- seen, number that it answers about (0: none), its answer ('ready' or why not), 1 if it
-- leaves, and the SHA-1 of the record that it answers about. It returns the state of the fleet.
local id, description, highest, about, answer, leaves, sum = ARGV[3], ARGV[4], number(ARGV[5]), number(ARGV[6]), ARGV[7], ARGV[8], ARGV[9]

if leaves == '1' then
  redis.call('ZREM', instances, id)
  redis.call('HDEL', beats, id)
else
  redis.call('ZADD', instances, whole(now), id)
  redis.call('HSET', beats, id, description)
  redis.call('PEXPIRE', instances, 600000)
  redis.call('PEXPIRE', beats, 600000)
end
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', instances, '-inf', whole(now - 60000))) do
  redis.call('ZREM', instances, dead)
  redis.call('HDEL', beats, dead)
end
if highest > number(redis.call('HGET', head, 'last')) then
  redis.call('HSET', head, 'last', whole(highest))
end

-- commit brings a proposed version into force, or begins its trial.
local function commit(p, n)
  local list = text(p[5])
  local version = begin .. 'version:' .. whole(n)
  local gone = missing(p[5] or '')
  if redis.call('EXISTS', version) == 0 then
    return finish(n, 'refused', 'its manifest is no longer in Redis')
  elseif gone then
    return finish(n, 'refused', 'its content in Redis is cut, damaged or missing: blob ' .. gone)
  end
  if p[6] == 'trial' then
    local till = now + number(p[7])
    redis.call('DEL', trial, begin .. 'counts', begin .. 'reports')
    redis.call('HSET', trial, 'number', whole(n), 'state', 'running', 'began', whole(now), 'until', whole(till),
      'follow', text(p[8]), 'abort', text(p[9]), 'before', text(p[2]), 'quorum', text(p[4]), 'blobs', p[5] or '', 'sum', text(p[10]))
    redis.call('PEXPIREAT', trial, whole(till + 86400000))
    redis.call('PEXPIREAT', version, whole(till + 86400000))
    blobs(p[5] or '', function(key)
      if redis.call('PTTL', key) >= 0 then
        redis.call('PEXPIREAT', key, whole(till + 86400000))
      end
    end)
    return finish(n, 'trial', '', till)
  end
  redis.call('PERSIST', version)
  blobs(p[5] or '', function(key) redis.call('PERSIST', key) end)
  local at = now + 500
  redis.call('HSET', head, 'in_force', whole(n), 'before', text(p[2]), 'at', whole(at), 'sum', whole(n) .. ':' .. text(p[10]))
  redis.call('ZADD', history, whole(n), whole(n))
  if redis.call('HGET', trial, 'state') == 'running' then
    redis.call('HSET', trial, 'state', 'ended', 'detail', 'version ' .. whole(n) .. ' was published')
  end
  return finish(n, 'in_force', '', at)
end

-- judge decides what becomes of the proposal.
local function judge(p, n)
  if now > number(p[3]) then
    local waiting = {}
    for _, one in ipairs(live()) do
      if redis.call('HEXISTS', answers, one) == 0 then
        waiting[#waiting + 1] = one
      end
    end
    return finish(n, 'lapsed', 'the deadline passed; no answer from ' .. table.concat(waiting, ', '))
  end
  if number(redis.call('HGET', head, 'in_force')) ~= number(p[2]) then
    return finish(n, 'conflict', 'another version came into force')
  end
  local all, ready, refused = live(), 0, {}
  for _, one in ipairs(all) do
    local said = redis.call('HGET', answers, one)
    if said == 'ready' then
      ready = ready + 1
    elseif said then
      refused[#refused + 1] = one .. ': ' .. text(said)
    end
  end
  local quorum = number(p[4])
  local wanted = quorum > 0 and quorum or #all
  if #all - #refused < wanted then
    return finish(n, 'refused', table.concat(refused, '\n'))
  end
  if ready > 0 and ready >= wanted then
    return commit(p, n)
  end
end

local p = redis.call('HMGET', proposal, 'number', 'before', 'deadline', 'quorum', 'blobs', 'kind', 'time', 'follow', 'abort', 'sum')
local n = number(p[1])
if n > 0 then
  -- After a loss of data a number may stand for another record.
  if about == n and sum == text(p[10]) and leaves ~= '1' then
    redis.call('HSET', answers, id, string.sub(answer, 1, 4096))
    redis.call('PEXPIRE', answers, spare)
  end
  judge(p, n)
  n = number(redis.call('HGET', proposal, 'number'))
end

-- A trial whose time has come ends; --then enforce proposes its version.
local t = redis.call('HMGET', trial, 'number', 'state', 'until', 'follow', 'before', 'quorum', 'blobs', 'sum')
if number(t[1]) > 0 and t[2] == 'running' and now >= number(t[3]) and n == 0 then
  local ask = ': koalagate publish --tried brings it into force'
  redis.call('HSET', trial, 'state', 'ended', 'detail', 'its time was over' .. (t[4] == 'ask' and ask or ''))
  if t[4] == 'enforce' and number(redis.call('HGET', head, 'in_force')) == number(t[5]) then
    n = number(t[1])
    redis.call('HSET', proposal, 'number', whole(n), 'before', whole(number(t[5])), 'deadline', whole(now + 30000),
      'quorum', whole(number(t[6])), 'blobs', t[7] or '', 'sum', text(t[8]), 'kind', 'publish')
    redis.call('PEXPIREAT', proposal, whole(now + 30000 + spare))
  end
end

return report()
