-- propose.lua: proposes a version. ARGV after those of shared.lua: number, number of the
-- version in force that it replaces, record, timeout in ms, quorum (0: all), blobs, kind
-- (publish or trial), and for a trial its time in ms, what follows and the share in
-- percent that aborts it. It returns a word and a detail.
local n, before, record, timeout, quorum, list, kind =
  number(ARGV[3]), number(ARGV[4]), ARGV[5], number(ARGV[6]), number(ARGV[7]), ARGV[8], ARGV[9]

local running = redis.call('HMGET', proposal, 'number', 'deadline')
if number(running[1]) > 0 then
  if now <= number(running[2]) then
    return {'busy', whole(number(running[1]))}
  end
  finish(number(running[1]), 'lapsed', 'the deadline passed before all instances were ready')
end
local state = redis.call('HMGET', head, 'in_force', 'last')
local in_force, last = number(state[1]), number(state[2])
if in_force ~= before then
  return {'conflict', whole(in_force)}
end
if n <= last or n <= in_force then
  return {'number', whole(math.max(last, in_force))}
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
redis.call('DEL', answers)
redis.call('HSET', proposal, 'number', whole(n), 'before', whole(before), 'deadline', whole(deadline), 'quorum', whole(quorum),
  'blobs', list, 'sum', redis.sha1hex(record), 'kind', kind, 'time', ARGV[10], 'follow', ARGV[11], 'abort', ARGV[12])
redis.call('PEXPIREAT', proposal, whole(deadline + spare))
redis.call('HSET', head, 'last', whole(n))
return {'proposed', whole(deadline)}
