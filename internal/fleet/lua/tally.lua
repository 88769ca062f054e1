-- tally.lua: what an instance has counted in a trial, and the step that aborts it. ARGV
-- after those of shared.lua: number, id of the instance, and since it began there its
-- requests, those newly refused, and its report. It returns 1, or 0 for another trial.
local n, id, report = number(ARGV[3]), ARGV[4], ARGV[7]
local t = redis.call('HMGET', trial, 'number', 'state', 'abort', 'until')
if number(t[1]) ~= n or #report > 262144 then
  return 0
end
local counts, reports = begin .. 'counts', begin .. 'reports'
if redis.call('HEXISTS', reports, id) == 0 and redis.call('HLEN', reports) >= 1000 then
  return 0
end
if redis.call('HLEN', counts) > 2000 then -- forged ones; the instances write theirs again
  redis.call('DEL', counts)
end
redis.call('HSET', counts, 'requests:' .. id, ARGV[5], 'refused:' .. id, ARGV[6])
redis.call('HSET', reports, id, report)
local gone = whole(number(t[4]) + 86400000)
redis.call('PEXPIREAT', counts, gone)
redis.call('PEXPIREAT', reports, gone)

local share = tonumber(t[3] or '0') or 0
if t[2] == 'running' and share > 0 then
  local requests, refused, all = 0, 0, redis.call('HGETALL', counts)
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 9) == 'requests:' then
      requests = requests + number(all[i + 1])
    else
      refused = refused + number(all[i + 1])
    end
  end
  if requests >= 1000 and refused * 100 > share * requests then
    redis.call('HSET', trial, 'state', 'aborted', 'detail',
      whole(refused) .. ' of ' .. whole(requests) .. ' requests would be newly refused, more than ' .. text(t[3]) .. ' %')
  end
end
return 1
