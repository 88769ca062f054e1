-- beat.lua: the heartbeat of an instance, and the step that brings a version into force.
-- ARGV after those of shared.lua: id, description, number that the instance answers about
-- (0: none), its answer ('ready' or why not), 1 if it leaves, and the sum of the record that it
-- answers about. It returns the state of the fleet.
local id, description, about, answer, leaves, sum = ARGV[3], ARGV[4], number(ARGV[5]), ARGV[6], ARGV[7], ARGV[8]

if leaves == '1' then
  redis.call('ZREM', instances, id)
  redis.call('HDEL', beats, id)
else
  redis.call('ZADD', instances, whole(now), id)
  redis.call('HSET', beats, id, description)
  redis.call('PEXPIRE', instances, list_time)
  redis.call('PEXPIRE', beats, list_time)
end
-- Instances that are gone stay until an operator dismisses them, the latest 100.
for _, range in ipairs({{whole(now + 60000), '+inf', 0}, {'-inf', whole(now - 3000), 100}}) do
  local found = redis.call('ZRANGEBYSCORE', instances, range[1], range[2], 'LIMIT', 0, 1000)
  for i = 1, #found - range[3] do
    redis.call('ZREM', instances, found[i])
    redis.call('HDEL', beats, found[i])
  end
end

local p = proposed()
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
local t = redis.call('HMGET', trial, 'number', 'state', 'until', 'follow', 'before', 'quorum', 'blobs', 'sum', 'seen', 'signed')
if number(t[1]) > 0 and t[2] == 'running' and now >= number(t[3]) and n == 0 then
  local ask = ': koalagate publish --tried brings it into force'
  redis.call('HSET', trial, 'state', 'ended', 'detail', 'its time was over' .. (t[4] == 'ask' and ask or ''))
  if t[4] == 'enforce' and not overtaken(t[9], t[5]) then
    n = number(t[1])
    redis.call('DEL', begin .. 'outcome:' .. whole(n), answers)
    redis.call('HSET', proposal, 'number', whole(n), 'before', whole(number(t[5])), 'deadline', whole(now + 30000),
      'quorum', whole(number(t[6])), 'blobs', t[7] or '', 'sum', text(t[8]), 'kind', 'publish',
      'seen', text(redis.call('HGET', head, 'in_force')), 'signed', text(t[10]))
    redis.call('PEXPIREAT', proposal, whole(now + 30000 + spare))
  end
end

return report()
