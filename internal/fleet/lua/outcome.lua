-- outcome.lua: what became of a proposal. ARGV after those of shared.lua: its number. It
-- returns the state (empty while there is none), the detail, the time, the number of the
-- proposal that waits, its state, and for each live instance its id and its answer.
local n = number(ARGV[3])
local done = redis.call('HMGET', begin .. 'outcome:' .. whole(n), 'state', 'detail', 'at')
local p = redis.call('HMGET', proposal, 'number', 'state')
local list = {text(done[1]), text(done[2]), whole(number(done[3])), whole(number(p[1])), text(p[2])}
for _, one in ipairs(live()) do
  list[#list + 1] = text(one)
  list[#list + 1] = text(redis.call('HGET', answers, one))
end
return list
