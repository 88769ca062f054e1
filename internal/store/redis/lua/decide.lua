-- Reading ---------------------------------------------------------------------

-- Returns the entries of a value, three elements each: tag, the instant from which
-- the counter is unused again, body; n is the number of elements. Nothing of a damaged
-- value is used.
local function parse(value, LAYOUT)
  if not value then return {expires = 0, n = 0, size = 0, counters = {}, absent = true} end
  local size = #value
  if size < 7 or string.byte(value) ~= LAYOUT then return {expires = 0, n = 0, size = 0, counters = {}, damaged = true} end
  local subject = {expires = struct.unpack('>I6', value, 2), n = 0, size = size, counters = {}}
  local at, n = 8, 0
  while at <= size do
    if at + 12 > size then return {expires = 0, n = 0, size = 0, counters = {}, damaged = true} end
    local tag, till, length = struct.unpack('>I5I6I2', value, at)
    if at + 12 + length > size then return {expires = 0, n = 0, size = 0, counters = {}, damaged = true} end
    subject[n + 1], subject[n + 2], subject[n + 3] = tag, till, string.sub(value, at + 13, at + 12 + length)
    at, n = at + 13 + length, n + 3
  end
  subject.n = n
  return subject
end

-- Returns the counter of a tag: its state, nil if it is unused, and the stored
-- state. No window ends at far or later, and no bucket was used then: an entry
-- with such an instant is damaged, and would refuse forever.
local function counter(subject, tag, methods, log, far)
  local c = subject.counters[tag]
  if c then return c end
  c = {method = methods[tag % 8], log = log}
  subject.counters[tag] = c
  for i = 1, subject.n, 3 do
    if subject[i] == tag then
      if subject[i + 1] < far or tag % 8 == 4 then -- a slow bucket may take longer to fill
        c.state = c.method.decode(subject[i + 2], subject[i + 1], log, far)
        c.stored = c.state
      end
      subject.damaged = subject.damaged or not c.state
      return c
    end
  end
  local n = subject.n
  subject[n + 1], subject.n = tag, n + 3
  return c
end

-- Deciding --------------------------------------------------------------------

-- The functions below receive the counters of all requests; the counters of a set
-- begin at from + 1.

local function read(r, c, now)
  return c.method.read(c.state or c.method.unused, r, now)
end

-- Reads the set's rules in order: up to the one that decides, or all for a
-- complete answer. Returns the position of the rule that decides, the indices of
-- the rules that refuse without deciding (for a complete answer, of all rules that
-- refuse), and the numbers of the rule that decides; with an overdraft also its hits.
local function walk(set, counters, from, now, complete)
  local decider, remaining, reset, retry, kind, refusals
  for j = 1, #set do
    local r = set[j]
    local admits, _, left, till, again, _, daily = read(r, counters[from + j], now)
    if not admits then
      if complete or r.shadow then
        refusals = refusals or {}
        refusals[#refusals + 1] = j - 1
      end
      if not (r.shadow or decider) then
        decider, remaining, reset, retry, kind = j, left, till, again, daily
        if not complete then break end
      end
    end
  end
  return decider, refusals, remaining, reset, retry, kind
end

-- Returns the answer if no rule decided: the numbers of the rule with the least
-- remaining.
local function report(set, counters, from, now, refusals, single)
  local reporter, remaining, reset, kind, hits = -1, 0, 0, nil, single and 0 or nil
  for j = 1, #set do
    local r = set[j]
    if single or not r.shadow then
      local _, _, left, till, _, counted, daily = read(r, counters[from + j], now)
      if reporter < 0 or left < remaining then
        reporter, remaining, reset, kind = j - 1, left, till, daily
        if single then hits = counted end
      end
    end
  end
  return answer(reporter, remaining, reset, kind, nil, refusals, hits)
end

-- Counts the first n rules of the set, except those in refusals.
local function add(set, n, refusals, counters, from, now)
  local skip = 1
  for j = 1, n do
    local r = set[j]
    if refusals and refusals[skip] == j - 1 then
      skip = skip + 1
    elseif r.weight > 0 then
      local c = counters[from + j]
      c.state = c.method.add(c.state or c.method.unused, r, now)
    end
  end
end

-- Gives back the weights of the set.
local function refund(set, counters, from, now)
  for j = 1, #set do
    local r, c = set[j], counters[from + j]
    if r.weight > 0 and c.state then c.state = c.method.refund(c.state, r, now) end
  end
end

-- Decides a set, and counts it if taking is true and the set is allowed. Returns
-- the answer, and whether it allows.
local function decide(set, counters, from, now, complete, taking, turn)
  local decider, refusals, remaining, reset, retry, kind, hits = walk(set, counters, from, now, complete, turn)
  if not decider then
    if taking and set.allows then add(set, #set, refusals, counters, from, now) end
    return report(set, counters, from, now, refusals), set.allows
  end
  local allows = not complete and set[decider].allows
  if taking and allows then add(set, decider - 1, refusals, counters, from, now) end
  return answer(decider - 1, remaining, reset, kind, retry, refusals, hits), allows
end

-- Carries out a request that counts everything if each of its sets is allowed, else
-- nothing. Its counters are those from from + 1 to upto.
local function take(shape, counters, from, upto, now, complete, answers)
  local before, begin, n = {}, from, #answers
  if #shape > 1 then -- only the refusal of another set undoes counts
    for i = from + 1, upto do before[i] = counters[i].state or false end
  end
  local allowed, refused = {}, false
  for i = 1, #shape do
    local set = shape[i]
    if set.refund then
      refund(set, counters, from, now)
      answers[n + i], allowed[i] = report(set, counters, from, now), true
    else
      answers[n + i], allowed[i] = decide(set, counters, from, now, complete, true)
    end
    refused = refused or not allowed[i]
    from = from + #set
  end
  if refused and #shape > 1 then
    for i = begin + 1, upto do counters[i].state = before[i] or nil end
    from = begin
    for i = 1, #shape do
      local set = shape[i]
      if set.refund then answers[n + i] = report(set, counters, from, now)
      elseif allowed[i] then answers[n + i] = decide(set, counters, from, now, complete, false) end
      from = from + #set
    end
  end
end

-- Carries out the part of a take whose other counters are in other slots: a take
-- that wants undo records. Appends the answers of a browse and the answers. Returns
-- the undo records by counter, nil if it was refused. Its sets neither refund nor
-- deny by default, and none of its rules allows.
local function take_part(shape, counters, from, upto, now, complete, answers)
  local before, begin, n = {}, from, #answers
  for i = from + 1, upto do before[i] = counters[i].state or false end
  for i = 1, #shape do
    answers[n + i] = decide(shape[i], counters, from, now, complete, false)
    from = from + #shape[i]
  end
  from, n = begin, n + #shape
  local undos, refused = {}, false
  for i = 1, #shape do
    local set = shape[i]
    local decider, refusals, remaining, reset, retry, kind = walk(set, counters, from, now, complete)
    if decider then
      answers[n + i], refused = answer(decider - 1, remaining, reset, kind, retry, refusals), true
    else
      local skip = 1
      for j = 1, #set do
        local r, c = set[j], counters[from + j]
        if refusals and refusals[skip] == j - 1 then
          skip = skip + 1
        elseif r.weight > 0 then
          local s = c.state or c.method.unused
          c.state = c.method.add(s, r, now)
          if c.state ~= s then
            undos[from + j] = {c.method.undo_record(s, c.state, now, r)}
            if names_reset(c, r) then undos[from + j][4] = reset_of(c, now) end
          end
        end
      end
      answers[n + i] = report(set, counters, from, now, refusals)
    end
    from = from + #set
  end
  if not refused then return undos end
  for i = begin + 1, upto do counters[i].state = before[i] or nil end
end
