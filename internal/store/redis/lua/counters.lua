-- Counters ---------------------------------------------------------------------
--
-- A value is read once, into a chain of counters in the order of its entries. Requests
-- change counters in place, and each value that changed is written once. A counter is an
-- array, because Lua makes one with a single allocation:
--
--   1  the tag; -1 - tag until a rule needs an entry that has to be checked or decoded
--   2  the instant from which the counter is unused again, 0 if it is unused
--   3  for count 7 if nothing changed, 1 if the hits changed, 2 if the window did; for
--      other entries the body, false if none is stored
--   4  the state: for count the hits, else what the method decodes, false if unused
--   5  the next counter of the value, or false
--   6  the stored state, and 7 the key of the log; not for count
--
-- So the state of a window is two numbers. The states of other methods are tables that
-- never change. An entry, with the positions of what struct.unpack makes of it at once,
-- which is the counter of a window but for the last element:
--
--   tag 5 | until 6 | length 2 | hits 7 | the next entry
--   1       2         3          4        5

local values = plan[3] > 0 and redis.call('MGET', unpack(KEYS, 1, plan[3])) or {}
-- By the number of the key: the first counter of the value, or false; nil if parse has to
-- read it. And the instant at which Redis expires the value, 0 if it has to be set. A
-- table that grows is copied each time it doubles, so both begin as copies, of which
-- all elements are overwritten.
local subjects, expiries, damaged = {unpack(values, 1, plan[3])}, {unpack(values, 1, plan[3])}, {}
local methods = {} -- see windows.lua

do -- Reads the values that are absent or one window, as most are.
  local now, far, read = now, far, struct.unpack
  for k = 1, plan[3] do
    local value = values[k]
    if not value then
      subjects[k], expiries[k] = false, 0
    elseif #value == 27 then
      local head, tag, till, length, hits = read('>I7I5I6I2I7', value)
      head = head - 562949953421312 -- LAYOUT times 2^48: the expiry follows it
      if length == 7 and tag % 8 == 1 and till <= head and head >= 0 and head < far then
        expiries[k], subjects[k] = head, {tag, till, 7, hits, false}
      else
        subjects[k] = nil
      end
    else
      subjects[k] = nil
    end
  end
end

-- Reads the value with the number k, and returns its first counter, or false. Nothing of
-- a damaged value is used, and nothing of an entry whose tag an earlier one has.
local function parse(k)
  local value, read, at, first, last, highest, seen = values[k], struct.unpack, 8, false, nil, -1, nil
  local size = #value
  local valid = size >= 7 and string.byte(value) == LAYOUT
  while valid and at <= size do
    local c, tag, till, length, hits = nil, nil, nil, nil, nil
    if at + 19 <= size then
      tag, till, length, hits = read('>I5I6I2I7', value, at)
    elseif at + 12 <= size then
      tag, till, length = read('>I5I6I2', value, at)
    end
    local from = at + 13
    at = from + (length or size)
    if at > size + 1 then
      valid = false
    elseif hits and length == 7 and tag % 8 == 1 and till < far then
      c = {tag, till, 7, hits, false}
    else
      c = {-1 - tag, till, string.sub(value, from, at - 1), false, false, false, false}
    end
    if valid then
      if tag > highest then
        highest = tag
      elseif not seen then -- entries are seldom out of order
        seen = {}
        local one = first
        while one do seen[one[1] < 0 and -1 - one[1] or one[1]], one = true, one[5] end
      end
      if not (seen and seen[tag]) then
        if seen then seen[tag] = true end
        if last then last[5] = c else first = c end
        last = c
      end
    end
  end
  local expires = valid and read('>I6', value, 2) or 0
  expiries[k] = expires < far and expires or 0 -- a later one was not written by this script, or belongs to a slow bucket
  if not valid then damaged[k], first = true, false end
  subjects[k] = first
  return first
end

-- Returns the counter of a tag of the value with the number k. No window ends at far or
-- later, and no bucket was used then: an entry with such an instant is damaged, and would
-- refuse forever.
local function find(k, tag, log)
  local c, last = subjects[k], nil
  if c == nil then c = parse(k) end
  while c do
    if c[1] == tag then return c end
    if c[1] == -1 - tag then break end
    last, c = c, c[5]
  end
  if c then
    c[1], c[7] = tag, log or false
    if tag % 8 == COUNT then -- damaged, else parse would have made a window
      c[2], c[3], c[4], damaged[k] = 0, 7, 0, true
    else
      if c[2] < far or tag % 8 == TOKEN then -- a slow bucket may take longer to fill
        c[4] = methods[tag % 8].decode(c[3], c[2], log, far) or false
        c[6] = c[4]
      end
      if not c[4] then damaged[k] = true end
    end
    return c
  end
  c = tag % 8 == COUNT and {tag, 0, 7, 0, false} or {tag, 0, false, false, false, false, log or false}
  if last then last[5] = c else subjects[k] = c end
  return c
end
