-- trial.lua: the last trial, without its reports.
local list = {}
for i, one in ipairs(redis.call('HMGET', trial, 'number', 'state', 'detail', 'began', 'until', 'follow', 'abort')) do
  list[i] = text(one)
end
return list
