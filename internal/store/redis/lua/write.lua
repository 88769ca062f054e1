-- Writing ---------------------------------------------------------------------

-- Returns the subject's encoded entries, and the instant until which they are
-- needed.
local function entries(subject, now)
  local parts, till = {}, 0
  for i = 1, subject.n, 3 do
    local tag, gone, body = subject[i], subject[i + 1], subject[i + 2]
    local c = subject.counters[tag]
    if c and c.state ~= c.stored then
      if c.state then
        parts[#parts + 1], gone = c.method.encode(c.state, tag, c.log, c.stored, now)
        till = math.max(till, gone)
      elseif c.log then
        redis.call('DEL', c.log)
      end
    elseif body and gone + 86400000 > now then -- else it has been unused for a day
      parts[#parts + 1] = struct.pack('>I5I6I2', tag, gone, #body) .. body
      till = math.max(till, gone)
    end
  end
  return table.concat(parts), till
end

-- Writes a subject's value. Writing in place is faster than replacing the value,
-- and keeps the expiry. Returns true if it replaced a value of another type.
local function write(subject, key, now, linger, far, LAYOUT)
  local value, till = entries(subject, now)
  if value == '' then
    redis.call('DEL', key)
  elseif till <= subject.expires and subject.expires < far then -- a later expiry was not written by this script, or belongs to a slow bucket
    if #value + 7 == subject.size then
      redis.call('SETRANGE', key, '7', value)
    else
      redis.call('SET', key, struct.pack('>BI6', LAYOUT, subject.expires) .. value, 'KEEPTTL')
    end
  else
    local expires = expiry(till, now, linger)
    local left = string.format('%.0f', expires - now)
    value = struct.pack('>BI6', LAYOUT, expires) .. value
    -- The key may hold a value of another type, which MGET reports as absent.
    if not subject.absent or not redis.call('SET', key, value, 'PX', left, 'NX') then
      redis.call('SET', key, value, 'PX', left)
      return subject.absent
    end
  end
end

local damaged = {}
for i = 1, plan[4] do
  local subject, changed = subjects[i], false
  if subject then -- else the key of a receipt
    for _, c in pairs(subject.counters) do changed = changed or c.state ~= c.stored end
    if changed and write(subject, KEYS[i], now, linger, far, LAYOUT) or subject.damaged then
      damaged[#damaged + 1] = struct.pack('>I2', i)
    end
  end
end
for key, receipt in pairs(receipts) do
  if receipt then
    redis.call('SET', key, receipt[1], 'PX', receipt_left(receipt[2], now, linger))
  else
    redis.call('DEL', key)
  end
end
return table.concat(answers) .. table.concat(damaged)
