    end
    -- A fault in one request would fail all callers of the script call: the reply says
    -- that nothing was written, and each request is sent again alone.
    local fine, next_at = pcall(carry_out, shape, begin + 1)
    if not fine then return struct.pack('>BI6', 2, now) .. tostring(next_at) end
    cursor = next_at
  end
end

-- Writing ---------------------------------------------------------------------

-- Returns the encoded entries from a counter on, and the instant until which they are
-- needed.
local function entries(c, now, pack)
  local parts, n, last = {}, 0, 0
  while c do
    local tag, till, body, text = c[1], c[2], c[3], nil
    if body == 1 or body == 2 or body == 7 then -- count
      if till > 0 and (body ~= 7 or till + 86400000 > now) then text = pack('>I5I6I2I7', tag, till, 7, c[4]) end
    elseif c[4] ~= c[6] then
      if c[4] then text, till = methods[tag % 8].encode(c[4], tag, c[7] or nil, c[6] or nil, now)
      elseif c[7] then redis.call('DEL', c[7]) end
    elseif body and till + 86400000 > now then -- else it has been unused for a day
      if tag < 0 then tag = -1 - tag end
      text = pack('>I5I6I2', tag, till, #body) .. body
    end
    if text then
      n = n + 1
      parts[n] = text
      if till > last then last = till end
    end
    c = c[5]
  end
  return n == 1 and parts[1] or table.concat(parts), last
end

-- Writes the value with the number k. Writing in place is faster than replacing the value,
-- and keeps the expiry.
local function write(k, c, now, pack)
  local call, key, before, expires = redis.call, KEYS[k], values[k], expiries[k]
  local value, till = entries(c, now, pack)
  if value == '' then
    call('DEL', key)
  elseif till <= expires then
    if #value + 7 == #before then
      call('SETRANGE', key, '7', value)
    else
      call('SET', key, pack('>BI6', LAYOUT, expires) .. value, 'KEEPTTL')
    end
  else
    expires = expiry(till, now, linger)
    local left = string.format('%.0f', expires - now)
    value = pack('>BI6', LAYOUT, expires) .. value
    -- The key may hold a value of another type, which MGET reports as absent.
    if before or not call('SET', key, value, 'PX', left, 'NX') then
      call('SET', key, value, 'PX', left)
      if not before then damaged[k] = true end
    end
  end
end

-- Reports whether a counter from c on changed.
local function is_changed(c)
  while c do
    local mark = c[3]
    if mark == 1 or mark == 2 or mark ~= 7 and c[4] ~= c[6] then return true end
    c = c[5]
  end
end

local call = redis.call
for k = 1, plan[3] do
  local c = subjects[k]
  if c then -- else a receipt, or nothing
    local mark, more, till = c[3], c[5], c[2]
    if not more and mark == 1 and till <= expiries[k] then -- as most: the hits of one window
      call('SETRANGE', KEYS[k], '20', pack('>I7', c[4]))
    elseif is_changed(c) then
      write(k, c, now, pack)
    end
  end
end
local till, left
for i = 1, #receipts do
  local receipt = receipts[i]
  if not receipt[2] then
    call('DEL', receipt[1])
  else
    if receipt[3] ~= till then till, left = receipt[3], receipt_left(receipt[3], now, linger) end
    call('SET', receipt[1], receipt[2], 'PX', left)
  end
end
for k in pairs(damaged) do answers[#answers + 1] = pack('>I2', k) end
return table.concat(answers)
