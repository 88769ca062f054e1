-- Counts beside other counters ------------------------------------------------

-- A value may hold more than the one counter that is asked for: those of other
-- rules on the same subject, or of rules that were in force before a reload. For
-- counts.lua each counter of a subject that is asked for has a number: the first
-- one's is that of the key, further ones' are behind those of all keys.

-- Where the entries of a value begin, by their tags, and whether one of them is
-- over for a day; nil if the value is damaged, or to be expired before one is over.
local function places(value, expires, now)
  local size, at, found = #value, 8, {over = false}
  while at <= size do
    if at + 12 > size then return end
    local tag, till, length = struct.unpack('>I5I6I2', value, at)
    if at + 12 + length > size or till > expires or tag % 8 == 1 and length ~= 7 then return end -- 1 is count
    found[tag] = found[tag] or at
    found.over = found.over or till + 86400000 <= now
    at = at + 13 + length
  end
  return found
end

-- The number of a tag's counter where the first one of key k is of another tag.
local function number(book, value, k, tag)
  local tags, numbers = book.tags, book.several[k]
  if tags[k] == 0 then -- nothing is stored, nor was asked for
    tags[k] = tag
    return k
  end
  if not numbers then -- one counter is: a stored one, or one that was asked for
    numbers = {k, places = value and {[tags[k]] = 8} or {}}
    book.several[k] = numbers
  end
  for i = 1, #numbers do
    if tags[numbers[i]] == tag then return numbers[i] end
  end
  local m, at = #numbers == 0 and k or #tags + 1, numbers.places[tag]
  numbers[#numbers + 1], tags[m], book.hits[m], book.closes[m] = m, tag, 0, 0
  if at then
    local till, _, used = struct.unpack('>I6I2I7', value, at + 5)
    book.hits[m], book.closes[m] = used, till
  end
  return m
end

-- A value's entries with what was counted: further ones are at the end, and what
-- is over for a day is left out.
local function entries_anew(book, value, numbers, now)
  local tags, hits, closes, changed = book.tags, book.hits, book.closes, book.changed
  local parts, counted, at = {}, {}, 8
  for i = 1, #numbers do
    local m = numbers[i]
    if changed[m] then counted[tags[m]] = struct.pack('>I5I6I2I7', tags[m], closes[m], 7, hits[m]) end
  end
  while value and at <= #value do
    local tag, till, length = struct.unpack('>I5I6I2', value, at)
    if counted[tag] then
      parts[#parts + 1] = counted[tag]
    elseif till + 86400000 > now then
      parts[#parts + 1] = string.sub(value, at, at + 12 + length)
    end
    at = at + 13 + length
  end
  for i = 1, #numbers do
    local tag = tags[numbers[i]]
    if not numbers.places[tag] then parts[#parts + 1] = counted[tag] end
  end
  return table.concat(parts)
end

-- Writes what was counted of a subject: in place, or all of it. Returns whether
-- a value of another type was in the way.
local function write_several(book, value, numbers, key, expires, now, linger, LAYOUT)
  local hits, closes, changed, call = book.hits, book.closes, book.changed, redis.call
  local till, anew = 0, numbers.places.over
  for i = 1, #numbers do
    local m = numbers[i]
    if changed[m] then
      till = math.max(till, closes[m])
      anew = anew or not numbers.places[book.tags[m]]
    end
  end
  if till == 0 then return end -- nothing was counted
  if till > expires then
    expires = expiry(till, now, linger)
    local left = string.format('%.0f', expires - now)
    local all = struct.pack('>BI6', LAYOUT, expires) .. entries_anew(book, value, numbers, now)
    if value or not call('SET', key, all, 'PX', left, 'NX') then
      call('SET', key, all, 'PX', left)
      return not value
    end
  elseif anew then
    call('SET', key, struct.pack('>BI6', LAYOUT, expires) .. entries_anew(book, value, numbers, now), 'KEEPTTL')
  else
    for i = 1, #numbers do
      local m = numbers[i]
      if changed[m] then -- what is behind the entry's tag
        call('SETRANGE', key, string.format('%.0f', numbers.places[book.tags[m]] + 4), struct.pack('>I6I2I7', closes[m], 7, hits[m]))
      end
    end
  end
end

