-- Keeps the name of a space among the instances that use it. KEYS: the key of the name, whose value
-- is NAME INSTANCE=END ..., each END in ms since the epoch. ARGV: the name if no other instance uses
-- one, the instance, and for how long it stays, in ms; 0 if it leaves. Returns the name.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- Scripts replicate their effects: Redis 5 and 6 do so only if told, newer ones always.
pcall(redis.replicate_commands)
local stays = tonumber(ARGV[3])
local text = redis.pcall('GET', KEYS[1])
local name, others = ARGV[1], ''
local longest = stays
if type(text) == 'string' and #text < 100000 then
  for instance, ends in string.gmatch(text, ' (%w+)=(%d+)') do
    local left = tonumber(ends) - now
    -- More is left of an entry only if the clock went back, or if another program wrote it.
    if instance ~= ARGV[2] and left > 0 and left < 60000 then
      others = others .. ' ' .. instance .. '=' .. ends
      longest = math.max(longest, left)
    end
  end
  if others ~= '' then name = string.match(text, '^(%w+) ') or name end
end
if stays > 0 then
  others = others .. ' ' .. ARGV[2] .. '=' .. string.format('%.0f', now + stays)
end
if others == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], name .. others, 'PX', string.format('%.0f', longest))
end
return string.sub(name, 1, 100)
