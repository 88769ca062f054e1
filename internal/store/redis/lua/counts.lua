-- Counts alone ----------------------------------------------------------------

-- Most rules count, and most calls take. Where that is all, no states are made: a
-- counter is its hits and the instant at which it closes, by its number (see
-- several.lua). Only values that are damaged, or seem to be, are left to what
-- follows; nothing is written then.

-- The stored counters, nil if a value is damaged. Tag 0 is none, and -1 one of
-- several. What has changed of a counter is 1 for its hits, 2 for its window too.
local function read_counts(values, n, now, far, unpack)
  -- Each is made of values, all of which are overwritten, so that it has its size
  -- from the start: to grow is to be copied each time that it doubles.
  local hits, closes, tags, expires = {unpack(values, 1, n)}, {unpack(values, 1, n)}, {unpack(values, 1, n)}, {unpack(values, 1, n)}
  local several, read = {}, struct.unpack
  for k = 1, n do
    local value = values[k]
    if not value then
      hits[k], closes[k], tags[k], expires[k] = 0, 0, 0, 0
    elseif #value == 27 then
      local head, tag, till, length, used = read('>I7I5I6I2I7', value)
      head = head - 281474976710656 -- 2^48: behind LAYOUT, which is 1, is the expiry
      if head < 0 or head >= far or length ~= 7 or till > head then return end
      hits[k], closes[k], tags[k], expires[k] = used, till, tag, head
    else
      if #value < 7 then return end
      local head = read('>I7', value) - 281474976710656
      local found = head >= 0 and head < far and places(value, head, now)
      if not found then return end
      hits[k], closes[k], tags[k], expires[k], several[k] = 0, 0, -1, head, {places = found}
    end
  end
  return {hits = hits, closes = closes, tags = tags, expires = expires, several = several, changed = {}, before = {}}
end

-- Counts the first n rules of a set but the refusals.
local function add_counts(set, n, refusals, plan, at, now, book)
  local hits, closes, changed, skip = book.hits, book.closes, book.changed, 1
  for j = 1, n do
    local r, k = set[j], plan[at + j]
    if refusals and refusals[skip] == j - 1 then
      skip = skip + 1
    elseif r.weight > 0 then
      if now >= closes[k] then hits[k], closes[k], changed[k] = 0, r.closes, 2 end
      hits[k] = math.min(hits[k] + r.weight, 9007199254740991)
      changed[k] = changed[k] or 1
    end
  end
end

-- The answer where no rule decided.
local function report_counts(set, refusals, plan, at, now, book)
  local hits, closes = book.hits, book.closes
  local reporter, remaining, reset = -1, 0, 0
  for j = 1, #set do
    local r, k = set[j], plan[at + j]
    if not r.shadow then
      local used, till = hits[k], closes[k]
      if now >= till then used, till = 0, r.closes end
      local left = used < r.count and r.count - used or 0
      if reporter < 0 or left < remaining then reporter, remaining, reset = j - 1, left, till - now end
    end
  end
  return answer(reporter, remaining, reset, nil, nil, refusals)
end

-- Answers a set, and counts it if taking and it allows. Returns the answer and
-- whether it allows.
local function decide_counts(set, plan, at, now, book, taking)
  local hits, closes, refusals = book.hits, book.closes, nil
  for j = 1, #set do
    local r, k = set[j], plan[at + j]
    local used, till = hits[k], closes[k]
    if now >= till then used, till = 0, r.closes end
    if used + r.weight > r.count then
      if not r.shadow then
        if taking and r.allows then add_counts(set, j - 1, refusals, plan, at, now, book) end
        local retry = r.weight > r.count and -1 or till - now
        return answer(j - 1, used < r.count and r.count - used or 0, till - now, nil, retry, refusals), r.allows
      end
      refusals = refusals or {}
      refusals[#refusals + 1] = j - 1
    end
  end
  if taking and set.allows then add_counts(set, #set, refusals, plan, at, now, book) end
  return report_counts(set, refusals, plan, at, now, book), set.allows
end

-- A request of any sets: all is counted if each of them allows. Returns where
-- the next request begins. In plan, numbers of counters take the place of those
-- of keys: nobody reads it after this.
local function take_counts(shape, plan, begin, now, book, answers, n, values)
  local hits, closes, tags, changed, upto = book.hits, book.closes, book.tags, book.changed, begin
  for i = 1, #shape do
    local set = shape[i]
    for j = 1, #set do
      upto = upto + 1
      local tag, k = set[j].tag, plan[upto]
      if tags[k] ~= tag then plan[upto] = number(book, values[k], k, tag) end
    end
  end
  local before = {}
  if #shape > 1 then -- only another set's refusal undoes what was counted
    for i = begin + 1, upto do
      local k = plan[i]
      before[#before + 1] = {k, hits[k], closes[k], changed[k]}
    end
  end
  local at, allowed, refused = begin, {}, false
  for i = 1, #shape do
    answers[n + i], allowed[i] = decide_counts(shape[i], plan, at, now, book, true)
    refused = refused or not allowed[i]
    at = at + #shape[i]
  end
  if refused and #shape > 1 then
    for _, old in ipairs(before) do hits[old[1]], closes[old[1]], changed[old[1]] = old[2], old[3], old[4] end
    at = begin
    for i = 1, #shape do
      if allowed[i] then answers[n + i] = decide_counts(shape[i], plan, at, now, book, false) end
      at = at + #shape[i]
    end
  end
  return upto + 1
end

-- Tells whether each set of a request is one rule in force that counts, and
-- nothing denies behind it.
local function is_plain(shape)
  for i = 1, #shape do
    local set = shape[i]
    if #set ~= 1 or not set.allows or set[1].shadow or set[1].weight == 0 then return false end
  end
  return true
end

-- The same as take_counts for a plain request that is admitted, as most are: no
-- set needs anything but its place in the loop. One that is refused is left as
-- it was, and nil returned.
local function admit(shape, plan, at, now, book, answers, n, values)
  local hits, closes, tags, changed, before = book.hits, book.closes, book.tags, book.changed, book.before
  for i = 1, #shape do
    local r, k = shape[i][1], plan[at + i]
    if tags[k] ~= r.tag then
      k = number(book, values[k], k, r.tag)
      plan[at + i] = k
    end
    local used, till, mark = hits[k], closes[k], changed[k]
    local b = 3 * i
    before[b], before[b + 1], before[b + 2] = used, till, mark
    mark = mark or 1
    if now >= till then used, till, mark = 0, r.closes, 2 end
    used = used + r.weight
    if used > r.count then
      for j = i - 1, 1, -1 do
        k = plan[at + j]
        hits[k], closes[k], changed[k] = before[3 * j], before[3 * j + 1], before[3 * j + 2]
      end
      return
    end
    hits[k], closes[k], changed[k] = used, till, mark
    answers[n + i] = struct.pack('>Bi2I6I7', 0, 0, r.count - used, till - now)
  end
  return at + #shape + 1
end

-- Writes what was counted, and returns the keys where a value of another type
-- was in the way.
local function write_counts(n, book, values, now, linger, LAYOUT)
  local damaged, keys, call, pack = '', KEYS, redis.call, struct.pack
  local hits, closes, expires, changed, several = book.hits, book.closes, book.expires, book.changed, book.several
  for k = 1, n do
    local what = changed[k]
    if several[k] then
      if write_several(book, values[k], several[k], keys[k], expires[k], now, linger, LAYOUT) then
        damaged = damaged .. pack('>I2', k)
      end
    elseif what then
      if closes[k] > expires[k] then
        local absent, till = expires[k] == 0, expiry(closes[k], now, linger)
        local left = string.format('%.0f', till - now)
        local value = pack('>BI6I5I6I2I7', LAYOUT, till, book.tags[k], closes[k], 7, hits[k])
        if not absent or not call('SET', keys[k], value, 'PX', left, 'NX') then
          if absent then damaged = damaged .. pack('>I2', k) end
          call('SET', keys[k], value, 'PX', left)
        end
      elseif what == 1 then -- in place: what is behind the entry's length
        call('SETRANGE', keys[k], '20', pack('>I7', hits[k]))
      else -- what is behind its tag
        call('SETRANGE', keys[k], '12', pack('>I6I2I7', closes[k], 7, hits[k]))
      end
    end
  end
  return damaged
end

-- The whole reply, nil where a value is damaged.
local function count_all(at)
  local book = read_counts(values, plan[4], now, far, unpack)
  if not book then return end
  local plan, shapes, values, now, answers, n = plan, shapes, values, now, {struct.pack('>BI6', 1, now)}, 1
  for i = 1, #shapes do shapes[i].plain = is_plain(shapes[i]) end
  for _ = 1, plan[7] do
    local shape = shapes[plan[at]]
    at = shape.plain and admit(shape, plan, at, now, book, answers, n, values) or take_counts(shape, plan, at, now, book, answers, n, values)
    n = n + #shape
  end
  return table.concat(answers) .. write_counts(plan[4], book, values, now, linger, LAYOUT)
end

if plan[3] == 1 then
  local reply = count_all(at)
  if reply then return reply end
end

