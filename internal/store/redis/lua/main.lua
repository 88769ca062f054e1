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

-- Carrying out requests ---------------------------------------------------------
--
-- Most requests are plain takes: on rules that count, in sets that allow. Their counters
-- are looked up, and compared with what each rule needs. If all fit, a second pass counts
-- and answers: nothing was counted before all fitted, so that nothing has to be undone.
-- All other requests are carried out by the functions from windows.lua on, each alone.
-- They are defined when the first such request comes, because that takes as long as some
-- plain takes.

-- Answers a plain take that a rule refuses. Overdrafts are counted up to the rule that
-- decides their set.
local function refuse(shape, found, now, answers)
  local rules, overdraws, pack = shape.rules, shape.overdraws, struct.pack
  local text, reporter, remaining, reset = nil, -1, 0, 0
  for j = 1, #rules do
    local r, c = rules[j], found[j]
    local hits, closes, weight = c[4], c[2], r.weight
    local refuses, opens = nil, now >= closes
    if opens then hits, closes = 0, r.closes end
    refuses = weight > r.count - hits
    if overdraws and not text then
      hits = weight > 9007199254740991 - hits and 9007199254740991 or hits + weight
      c[2], c[3], c[4] = closes, opens and 2 or c[3] == 7 and 1 or c[3], hits
    end
    local left = hits < r.count and r.count - hits or 0
    if refuses and not text then
      local retry = weight > r.count and 36028797018963968 or closes - now
      text = overdraws and pack('>Bi2I7I7I7I7', 9, r.number, left, closes - now, retry, hits)
        or pack('>Bi2I7I7I7', 1, r.number, left, closes - now, retry)
    elseif reporter < 0 or left < remaining then
      reporter, remaining, reset = r.number, left, closes - now
    end
    if r.last then
      answers[#answers + 1] = text or pack('>Bi2I7I7', 0, reporter, remaining, reset)
      text, reporter, remaining, reset = nil, -1, 0, 0
    end
  end
end

-- Returns the end of the reply to a plain take that makes a receipt, as receipts.lua does
-- for counters that were never reset: undos are its undo records.
local function keep_receipt(rules, found, now, receipts, undos, key, description)
  local parts, span, pack = '', 0, struct.pack
  for j = 1, #rules do
    local r = rules[j]
    if r.part then span, parts = math.max(span, r.span), parts .. pack('>I2I7I6I7I6', r.part, r.weight, found[j][2], 0, 0) end
  end
  receipts[#receipts + 1] = {key, pack('>BI6I6I2', LAYOUT, now, now + span, #parts / 28) .. parts .. description, now + span}
  return '\1\1' .. undos
end

-- Reports whether one of the counters from c on remembers a reset.
local function was_reset(c)
  while c do
    local tag = c[1]
    if tag % 8 == 6 and tag > 0 or tag % 8 == 1 and tag < 0 then return true end -- (-1 - 6) % 8 is 1
    c = c[5]
  end
end

-- Settles a receipt of rules that count, as receipts.lua does for counters that were never
-- reset. For each rule, the plan has the key, the number of its part, 1, and the hits.
-- Returns the position of the next request, nil if the other functions must settle it.
local function settle_windows(rules, found, at, now, receipts, answers)
  local plan, key = plan, plan[at + 1]
  local value = values[key]
  local valid, parts = parts_of(value, now)
  for j = 1, #rules do
    local k = plan[at + j * 4 - 2]
    local first = subjects[k]
    local c = first
    if not c or c[1] ~= rules[j].tag then c = find(k, rules[j].tag) end
    if (c ~= first or c[5]) and was_reset(subjects[k]) then return nil end
    found[j] = c
  end
  for j = 1, valid and #rules or 0 do
    local from, given = parts[plan[at + j * 4 - 1]], plan[at + j * 4 + 1]
    if from then
      local weight, closes = struct.unpack('>I7I6', value, from + 2)
      local c, more = found[j], given - weight
      if closes == 0 then -- the take recorded nothing
        more, closes = given, c[2]
        if now >= closes and given > 0 then
          closes = rules[j].closes
          c[2], c[3], c[4] = closes, 2, 0
        end
      end
      local hits = c[4]
      if now < closes and c[2] == closes and hits <= 9007199254740991 then
        c[4] = more < 0 and math.max(hits + more, 0) or hits + math.min(more, 9007199254740991 - hits)
        if c[3] == 7 then c[3] = 1 end
      end
    end
  end
  answers[#answers + 1] = valid and '\1' or '\0'
  if valid then values[key], receipts[#receipts + 1] = false, {KEYS[key]} end
  return at + 2 + #rules * 4
end

local answers, found = {struct.pack('>BI6', 1, now)}, {}
local receipts = {} -- in order: the key, then the value and the end of what is made or renewed
local carry_out -- the functions for other requests
local pack = struct.pack

for _ = 1, plan[6] do
  local shape, begin, done = shapes[plan[cursor]], cursor, false
  if shape.plain then
    local rules, n, fits, alone, c, last, key, undos = shape.rules, #answers, true, shape.alone, nil, 0, nil, ''
    if shape.receipt then key, cursor = plan[cursor + 1], cursor + 2 end
    for j = 1, #rules do
      local r, k = rules[j], plan[cursor + j]
      if k == last then
        c = c[5]
      else
        c, last = subjects[k], k
        if c == nil then c = parse(k) end
      end
      if not c or c[1] ~= r.tag then c = find(k, r.tag) end
      found[j] = c
      local hits = now < c[2] and c[4] or 0
      if r.weight > r.count - hits then -- no sum, which might exceed 2^53
        fits = false
        if hits > 9007199254740991 then alone = false end
      end
      if key and (c[5] or c ~= subjects[k]) and was_reset(subjects[k]) then fits = false end
    end
    if shape.repeats and twice(found, #rules) then fits, alone = false, false end
    if fits then
      local reporter, remaining, reset = -1, 0, 0
      for j = 1, #rules do
        local r = rules[j]
        c = found[j]
        local hits, closes, flags = c[4], c[2], 1
        if now >= closes then
          hits, closes, flags = 0, r.closes, 3
          c[2], c[3] = closes, 2
        elseif c[3] == 7 then
          c[3] = 1
        end
        hits = hits + r.weight
        c[4] = hits
        local left = r.count - hits
        if (reporter < 0 or left < remaining) and not r.shadow then reporter, remaining, reset = r.number, left, closes - now end
        if key then undos = undos .. pack('>BI6I7I6', flags, closes, 0, 0) end
        if r.last then
          n = n + 1
          answers[n] = pack('>Bi2I7I7', 0, reporter, remaining, reset)
          reporter, remaining, reset = -1, 0, 0
        end
      end
      if key then answers[n + 1] = keep_receipt(rules, found, now, receipts, undos, KEYS[key], ARGV[plan[cursor]]) end
    elseif alone then
      refuse(shape, found, now, answers)
    end
    if fits or alone then cursor, done = cursor + #rules + 1, true end
  elseif shape.settles then
    local after = settle_windows(shape.rules, found, cursor, now, receipts, answers)
    if after then cursor, done = after, true end
  end
  if not done then
    if not carry_out then
