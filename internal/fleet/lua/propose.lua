-- propose.lua: proposes a version. ARGV after those of shared.lua: number, number of the
-- version in force that it replaces, record, timeout in ms, quorum (0: all), blobs, kind
-- (publish or trial), for a trial its time in ms, what follows and the share in percent that
-- aborts it, then what head held when the publisher looked, the sum of the record, and 1 for a
-- signed version. It returns a word and a detail.
local n, before, record, timeout, quorum, list, kind, seen, sum, signed =
  number(ARGV[3]), number(ARGV[4]), ARGV[5], number(ARGV[6]), number(ARGV[7]), ARGV[8], ARGV[9], ARGV[13], ARGV[14], ARGV[15]

local running = redis.call('HMGET', proposal, 'number', 'deadline')
if number(running[1]) > 0 then
  if not over(number(running[2])) then
    return {'busy', whole(number(running[1]))}
  end
  finish(number(running[1]), 'lapsed', 'the deadline passed before all instances were ready')
end
if standing() ~= seen then
  return {'changed', ''}
end
local alive = #live()
if alive == 0 then
  return {'nobody', ''}
end
if quorum > alive then
  return {'quorum', whole(alive)}
end
local gone = missing(list)
if gone then
  return {'missing', gone}
end
local deadline = now + timeout
local version = begin .. 'version:' .. whole(n)
redis.call('SET', version, record)
redis.call('PEXPIREAT', version, whole(deadline + spare))
redis.call('DEL', proposal, answers, begin .. 'outcome:' .. whole(n))
redis.call('HSET', proposal, 'number', whole(n), 'before', whole(before), 'deadline', whole(deadline), 'quorum', whole(quorum),
  'blobs', list, 'sum', sum, 'kind', kind, 'time', ARGV[10], 'follow', ARGV[11], 'abort', ARGV[12],
  'seen', text(redis.call('HGET', head, 'in_force')), 'signed', signed)
redis.call('PEXPIREAT', proposal, whole(deadline + spare))
redis.call('HSET', head, 'last', whole(n))
return {'proposed', whole(deadline)}
