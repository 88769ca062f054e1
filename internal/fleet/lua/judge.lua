-- judge.lua: the step that brings a version into force. It follows shared.lua in the scripts
-- that take it.

-- proposed returns the fields of the proposal, in the order that judge expects.
local function proposed()
  return redis.call('HMGET', proposal, 'number', 'before', 'deadline', 'quorum', 'blobs', 'kind', 'time', 'follow', 'abort', 'sum',
    'seen', 'signed', 'state')
end

-- commit brings a proposed version into force, or begins its trial. line is the signature
-- with which it is in force, nil for a version without signatures.
local function commit(p, n, line)
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
      'follow', text(p[8]), 'abort', text(p[9]), 'before', text(p[2]), 'quorum', text(p[4]), 'blobs', p[5] or '', 'sum', text(p[10]),
      'seen', text(p[11]), 'signed', text(p[12]))
    redis.call('PEXPIREAT', trial, whole(till + 86400000))
    redis.call('PEXPIREAT', version, whole(till + 86400000))
    blobs(p[5] or '', function(key)
      if redis.call('PTTL', key) >= 0 then
        redis.call('PEXPIREAT', key, whole(till + 86400000))
      end
    end)
    return finish(n, 'trial', '', till)
  end
  if line then
    local record = redis.call('GETRANGE', version, 0, -1)
    redis.call('SET', version, line .. string.sub(record, string.find(record, '\n', 1, true) or 1))
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

-- overtaken reports whether another version came into force since the publisher looked. An
-- older program does not write what it saw.
local function overtaken(seen, before)
  local current = redis.call('HGET', head, 'in_force')
  if seen then
    return text(current) ~= seen
  end
  return number(current) ~= number(before)
end

-- judge decides what becomes of the proposal. A signed version waits for line, the signature
-- with which it is in force, when the instances are ready.
local function judge(p, n, line)
  if over(number(p[3])) then
    local waiting = {}
    for _, one in ipairs(live()) do
      if redis.call('HEXISTS', answers, one) == 0 then
        waiting[#waiting + 1] = one
      end
    end
    if p[13] == 'ready' then
      return finish(n, 'lapsed', 'the deadline passed; all instances were ready, and its publisher did not sign it as the one in force')
    end
    return finish(n, 'lapsed', 'the deadline passed; no answer from ' .. table.concat(waiting, ', '))
  end
  if overtaken(p[11], p[2]) then
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
  local complete = ready > 0 and ready >= wanted
  if complete and (line or p[12] ~= '1' or p[6] == 'trial') then
    return commit(p, n, line)
  end
  local state = complete and 'ready' or 'pending'
  if p[13] ~= state then
    redis.call('HSET', proposal, 'state', state)
  end
end
