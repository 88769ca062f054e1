-- The short path for counts -----------------------------------------------------

-- Most calls are takes on count rules, and most of them are admitted. If that
-- holds for every request of a call, no counter states are built: a counter is
-- two numbers, its hits and the instant at which its window closes, stored under
-- the position of its key. Takes may make receipts, and receipts of count rules may be
-- read and settled. Everything else leaves the short path before anything is written, and
-- the whole call takes the general one: a rule that refuses, unless every rule of its
-- request has an overdraft, so that nothing is undone; a value that holds anything but the
-- one counter of its rule; a damaged value.

-- Reads the stored counters. Returns nil if a value is damaged. A tag of 0 means that
-- nothing is stored, -1 that a value is not a single count counter.
local function read_counts(values, n, now, far, unpack)
  -- Each table starts as a copy of values, all of whose elements are overwritten,
  -- because a table that grows is copied each time it doubles.
  local hits, closes, tags, expires = {unpack(values, 1, n)}, {unpack(values, 1, n)}, {unpack(values, 1, n)}, {unpack(values, 1, n)}
  local read = struct.unpack
  for k = 1, n do
    local value = values[k]
    if not value then
      hits[k], closes[k], tags[k], expires[k] = 0, 0, 0, 0
    elseif #value == 27 then
      local head, tag, till, length, used = read('>I7I5I6I2I7', value)
      head = head - 562949953421312 -- LAYOUT times 2^48: the expiry follows it
      if head < 0 or head >= far or tag == 0 or length ~= 7 or till > head then return end
      hits[k], closes[k], tags[k], expires[k] = used, till, tag, head
    else
      tags[k] = -1
    end
  end
  return {hits = hits, closes = closes, tags = tags, expires = expires, changed = {}, receipts = {}}
end

-- Makes the receipt of a request, whose rules and counters are known: as receipts.lua
-- does for counters that were never reset. undos are the encoded undo records. Returns the
-- end of the reply, or nil if two parts have one counter.
local function keep_receipt(shape, plan, at, now, book, key, description, undos)
  local parts, owned, span = '', shape.kept > 1 and {}, 0
  for i = 1, #shape do
    local set = shape[i]
    for j = 1, #set do
      at = at + 1
      local r, k = set[j], plan[at]
      if r.part then
        if owned then
          if owned[k] then return end
          owned[k] = true
        end
        span, parts = math.max(span, r.span), parts .. struct.pack('>I2I7I6I7I6', r.part, r.weight, book.closes[k], 0, 0)
      end
    end
  end
  local value = struct.pack('>BI6I6I2', LAYOUT, now, now + span, #parts / 28) .. parts .. description
  book.receipts[#book.receipts + 1] = {key, value, now + span}
  return '\1\1' .. undos
end

-- Reports whether each rule of a request records its weight whatever the others do.
local function overdraws(shape)
  if shape.overdraws == nil then
    shape.overdraws = not shape.receipt
    for i = 1, #shape do
      for j = 1, #shape[i] do
        local r = shape[i][j]
        shape.overdraws = shape.overdraws and r.overdraft and not (r.ban or r.share)
      end
    end
  end
  return shape.overdraws
end

-- Returns the answer to a set that its rule j decides, whose counter has been overdrawn.
local function overdrawn(set, j, hits, left)
  local r = set[j]
  return struct.pack('>Bi2I7I7I7I7', 9, j - 1, 0, left, r.weight > r.count and 36028797018963968 or left, hits)
end

-- Returns the answer to a set that no rule decides. The counters of its rules are those
-- behind first in plan.
local function within(set, plan, first, now, hits, closes)
  local reporter, remaining, reset = -1, 0, 0
  for j = 1, #set do
    local k = plan[first + j]
    local left = hits[k] < set[j].count and set[j].count - hits[k] or 0
    if reporter < 0 or left < remaining then reporter, remaining, reset = j - 1, left, closes[k] - now end
  end
  return struct.pack('>Bi2I7I7', 0, reporter, remaining, reset)
end

-- Counts a request on the counters in book and appends the answer of each of its
-- sets, the n+1st and following, and its receipt. Returns the position of the next request
-- in plan and the number of answers, or nil if the general path must decide it: a rule
-- refuses whose refusal may undo others, or a counter is not the rule's own. In changed, 1 means that the hits of a counter changed and 2 that its window did, too.
local function admit(shape, plan, at, now, book, answers, n)
  local hits, closes, tags, changed = book.hits, book.closes, book.tags, book.changed
  local kept, begin, undos = shape.receipt, at, ''
  if kept then at = at + 2 end
  local deciders, refused, from = nil, false, at
  for i = 1, #shape do
    local set, decider = shape[i], nil
    local first = at
    for j = 1, #set do
      at = at + 1
      local r, k = set[j], plan[at]
      if tags[k] ~= r.tag then
        if tags[k] ~= 0 then return end
        tags[k] = r.tag
      end
      local used, till, mark, opens = hits[k], closes[k], changed[k] or 1, now >= closes[k]
      if opens then used, till, mark = 0, r.closes, 2 end
      if r.weight > r.count - used then -- no sum, which might exceed 2^53
        if used > 9007199254740991 or not overdraws(shape) then return end
        for before = first + 1, at - 1 do -- a set reads all of its rules before it counts
          if plan[before] == k then return end
        end
        hits[k], closes[k], changed[k] = used + math.min(r.weight, 9007199254740991 - used), till, mark
        decider, refused = j, refused or not r.allows
        break
      end
      hits[k], closes[k], changed[k] = used + r.weight, till, mark
      if kept then undos = undos .. struct.pack('>BI6I7I6', opens and 3 or 1, till, 0, 0) end
    end
    at = first + #set
    if decider then
      local k = plan[first + decider]
      answers[n + i] = overdrawn(set, decider, hits[k], closes[k] - now)
      deciders = deciders or {}
      deciders[i] = decider
    else -- once all are counted: two rules may share a counter
      answers[n + i] = within(set, plan, first, now, hits, closes)
    end
  end
  if refused and #shape > 1 then -- the other sets are answered as after the refusal
    for i = 1, #shape do
      local set, decider = shape[i], deciders[i]
      if not decider then answers[n + i] = within(set, plan, from, now, hits, closes)
      elseif set[decider].allows then
        local k = plan[from + decider]
        answers[n + i] = overdrawn(set, decider, hits[k], closes[k] - now)
      end
      from = from + #set
    end
  end
  n = n + #shape
  if kept then
    n = n + 1
    answers[n] = keep_receipt(shape, plan, begin + 2, now, book, KEYS[plan[begin + 1]], ARGV[plan[begin + 2]], undos)
    if not answers[n] then return end
  end
  return at + 1, n
end

-- Settles a receipt of estimates, as receipts.lua does for counters that were never reset.
-- Returns the position of the next request in plan and whether the receipt is valid, or nil
-- if a counter is not the rule's own.
local function settle_counts(shape, plan, at, now, book, value)
  local key, set, hits, changed = plan[at + 1], shape[1], book.hits, book.changed
  local valid, parts = parts_of(value, now)
  at = at + 2
  for j = 1, #set do
    local k, from = plan[at], valid and parts[plan[at + 1]]
    if from then
      local weight, closes = struct.unpack('>I7I6', value, from + 2)
      local tag, used, given = book.tags[k], hits[k], plan[at + 3]
      if closes == 0 or tag ~= set[j].tag and tag ~= 0 then return end
      if tag ~= 0 and now < closes and book.closes[k] == closes and used <= 9007199254740991 then
        if given <= weight then used = math.max(used - (weight - given), 0)
        else used = used + math.min(given - weight, 9007199254740991 - used) end
        hits[k], changed[k] = used, changed[k] or 1
      end
    end
    at = at + 4
  end
  if valid then
    book.spent = book.spent or {}
    book.spent[key] = true
  end
  return at, valid
end

-- Carries out an operation on a receipt and appends its reply. Returns as admit.
local function on_receipt(shape, plan, at, now, book, answers, n)
  local key, valid = plan[at + 1], nil
  local value = not (book.spent and book.spent[key]) and values[key] or ''
  if shape.operation == READ then
    if #value > MAX_RECEIPT then value = '' end
    answers[n + 1] = struct.pack('>I4', #value) .. value
    return at + 2, n + 1
  end
  at, valid = settle_counts(shape, plan, at, now, book, value)
  answers[n + 1] = valid and '\1' or '\0'
  return at, n + 1
end

-- Writes the changed counters and the receipts. Returns the numbers of the keys that held a value
-- of another type, which is replaced.
local function write_counts(n, book, now, linger, LAYOUT)
  local damaged, keys, call, pack = '', KEYS, redis.call, struct.pack
  local hits, closes, expires, changed = book.hits, book.closes, book.expires, book.changed
  for k = 1, n do
    local what = changed[k]
    if what then
      if closes[k] > expires[k] then
        local absent, till = expires[k] == 0, expiry(closes[k], now, linger)
        local left = string.format('%.0f', till - now)
        local value = pack('>BI6I5I6I2I7', LAYOUT, till, book.tags[k], closes[k], 7, hits[k])
        if not absent or not call('SET', keys[k], value, 'PX', left, 'NX') then
          if absent then damaged = damaged .. pack('>I2', k) end
          call('SET', keys[k], value, 'PX', left)
        end
      elseif what == 1 then -- in place: the bytes after the length of the entry
        call('SETRANGE', keys[k], '20', pack('>I7', hits[k]))
      else -- the bytes after its tag
        call('SETRANGE', keys[k], '12', pack('>I6I2I7', closes[k], 7, hits[k]))
      end
    end
  end
  local till, left
  for i = 1, #book.receipts do
    local receipt = book.receipts[i]
    if receipt[3] ~= till then till, left = receipt[3], receipt_left(receipt[3], now, linger) end
    call('SET', receipt[1], receipt[2], 'PX', left)
  end
  for k in pairs(book.spent or {}) do call('DEL', keys[k]) end
  return damaged
end

-- Returns the whole reply, or nil if the call must take the general path.
local function count_all(at)
  local book = read_counts(values, plan[4], now, far, unpack)
  if not book then return end
  local plan, shapes, now, answers, n = plan, shapes, now, {struct.pack('>BI6', 1, now)}, 1
  for _ = 1, plan[7] do
    local shape = shapes[plan[at]]
    local carry_out = shape.operation == TAKE and admit or on_receipt
    at, n = carry_out(shape, plan, at, now, book, answers, n)
    if not at then return end
  end
  return table.concat(answers) .. write_counts(plan[4], book, now, linger, LAYOUT)
end

if plan[3] == 1 then
  local reply = count_all(at)
  if reply then return reply end
end
