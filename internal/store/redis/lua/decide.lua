-- Reading ---------------------------------------------------------------------

-- A value's entries, three places each: tag, the instant from which it is as
-- new, body; n is how many places. Nothing of a damaged value is believed.
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

-- The counter of a tag: its state, nil if there is none, and the one stored. No
-- window lasts till far, and no bucket was used then: such an instant is damaged,
-- and would refuse for ever.
local function counter(subject, tag, methods, log, far)
  local c = subject.counters[tag]
  if c then return c end
  c = {method = methods[tag % 8], log = log}
  subject.counters[tag] = c
  for i = 1, subject.n, 3 do
    if subject[i] == tag then
      if subject[i + 1] < far or tag % 8 == 4 then -- a bucket may take ages
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

-- counters are those of all requests; from is where a set's begin.
local function look(r, c, now)
  return c.method.look(c.state or c.method.unused, r, now)
end

-- Looks at the set's rules in order: up to the one that decides, or all for a
-- complete answer. Returns the place of that rule, what it says, and the rules
-- that refuse and do not decide, or for a complete answer all that refuse.
local function walk(set, counters, from, now, complete)
  local decider, remaining, reset, retry, daily, refusals
  for j = 1, #set do
    local r = set[j]
    local admits, _, left, till, wait, _, today = look(r, counters[from + j], now)
    if not admits then
      if complete or r.shadow then
        refusals = refusals or {}
        refusals[#refusals + 1] = j - 1
      end
      if not (r.shadow or decider) then
        decider, remaining, reset, retry, daily = j, left, till, wait, today
        if not complete then break end
      end
    end
  end
  return decider, refusals, remaining, reset, retry, daily
end

-- The answer where no rule decided: it tells of the one with the least remaining.
local function report(set, counters, from, now, refusals, single)
  local reporter, remaining, reset, daily, hits = -1, 0, 0, nil, single and 0 or nil
  for j = 1, #set do
    local r = set[j]
    if single or not r.shadow then
      local _, _, left, till, _, counted, today = look(r, counters[from + j], now)
      if reporter < 0 or left < remaining then
        reporter, remaining, reset, daily = j - 1, left, till, today
        if single then hits = counted end
      end
    end
  end
  return answer(reporter, remaining, reset, daily, nil, refusals, hits)
end

-- Counts the first n rules of the set but the refusals.
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

local function refund(set, counters, from, now)
  for j = 1, #set do
    local r, c = set[j], counters[from + j]
    if r.weight > 0 and c.state then c.state = c.method.refund(c.state, r, now) end
  end
end

-- Answers a set without counting it, or counts it too if taking and it allows.
-- Returns the answer, and whether it allows.
local function decide(set, counters, from, now, complete, taking)
  local decider, refusals, remaining, reset, retry, daily = walk(set, counters, from, now, complete)
  if not decider then
    if taking and set.allows then add(set, #set, refusals, counters, from, now) end
    return report(set, counters, from, now, refusals), set.allows
  end
  local allows = not complete and set[decider].allows
  if taking and allows then add(set, decider - 1, refusals, counters, from, now) end
  return answer(decider - 1, remaining, reset, daily, retry, refusals), allows
end

-- A request that counts everything if each of its sets allows, else nothing.
-- Its counters are those from number from + 1 up to number upto.
local function take(shape, counters, from, upto, now, complete, answers)
  local before, begin, n = {}, from, #answers
  if #shape > 1 then -- only another set's refusal undoes what was counted
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
