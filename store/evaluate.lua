-- Carries out requests, one after the other, as one atomic step. A request is a
-- plan; those of many callers share the cost of a call, and each sees what the
-- ones before it did. Memory does the same in Go: step.go walks as here, and
-- count.go, base.go, leak.go and token.go are the methods.
--
-- KEYS     The values of the subjects, each once; then the logs of the leak
--          counters, each once.
--
-- ARGV[1]  A msgpack array of integers:
--            now          ms since the epoch; 0 asks for the clock of Redis
--            linger       how long keys are kept beyond their end, in ms
--            counts       1 if all that is asked for is to take, on one count
--                         rule a subject
--            subjects, zones, shapes, requests: how many of each there are. The
--                         first so many KEYS are subjects
--            for each zone four instants, ascending: the first is the begin of
--                         a day, each other one an end and a begin
--            for each shape, which is a request without its keys:
--              zone       its number, from 1; 0 if no rule asks for the calendar
--              operation  as in store.go; 9 gives back what receipts say; 16 more
--                         asks a take for receipts
--              sets, then for each of them:
--                flags    1 refund, 2 allows
--                rules, then for each of them:
--                  tag, time in ms (0 is the calendar day), weight, count, base
--                  or burst, flags (1 shadow, 2 allows)
--            for each request:
--              shape      its number, from 1
--              for each rule, set by set, the number of its subject's key, and
--                         behind it that of its log if it is a leak rule, 0 if
--                         the log is not named; then the four numbers of its
--                         receipt if it gives back
--
-- reply    A byte and the clock's instant in six. Where the byte is 0, nothing
--          was written: the days sent for a zone do not fit the instant. Where it
--          is 2, nothing was written either: a fault, whose words follow. Where it
--          is 1, there follow for each set of each request:
--            a byte     1 decided, 2 daily, 4 refusals follow, 8 hits follow
--            reporter   two bytes, signed; it decided where 1 is set
--            remaining, reset      six and seven bytes
--            retry      seven bytes, from 1, 0 is never; where 1 is set
--            refusals   two bytes, and that many indices of rules of two bytes
--            hits       seven bytes
--          before them, if receipts were asked for, what a look would answer for
--          each set, and behind them a byte: 1 if the request was counted, and
--          then for each rule its receipt (receipt.go): flags (1 counted, 2
--          opened a window, 4 opened the second one) and numbers of six, seven
--          and six bytes
--          at the end, the number among KEYS, from 1, of each damaged value, in
--          two bytes.
--
-- A value is a byte that tells the layout, the instant at which Redis expires
-- the key, and entries: tag, the instant from which the counter is as new, the
-- length of the body, the body. From that instant on it is as new whatever the
-- thresholds have become, so that no answer depends on when Redis drops it. The
-- tag is return × 8 + method. Entries that no
-- rule of the plan asks for are carried along: they may belong to other rules,
-- or to other versions of this program. What is no such value is damaged: it is
-- taken for absent, told of, and replaced where something is written.
--
-- There are three phases: everything is read, everything is decided on states
-- that are never changed in place, and what became another state is written: a
-- key once, however many requests had to do with it. Nothing is written before
-- all is decided, so no fault leaves half a step.
--
-- The style serves speed: all of this runs with every call. To make a function
-- costs next to nothing, and 0.1 µs for each local that it takes from outside.
-- So functions are handed what they need, libraries are named in full, and the
-- functions of a method are made only where a rule asks for it.

local LAYOUT = 1
local COUNT, BASE, LEAK, TOKEN = 1, 2, 3, 4
local TAKE, BROWSE, UPDATE, REFUND, COMPLETE, COMPLETE_TAKE, PEEK, RESET, GIVE_BACK = 1, 2, 3, 4, 5, 6, 7, 8, 9

local plan = cmsgpack.unpack(ARGV[1])

local now, linger = plan[1], plan[2]
if now == 0 then -- read once: it moves within a script
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local far = now + 63244800000 -- twice the longest time of a rule

local at = 8 -- where to read on in plan
local day_ends = {}
for i = 1, plan[5] do
  if now < plan[at] or now >= plan[at + 3] then
    return struct.pack('>BI6', 0, now)
  end
  local day = at
  while plan[day] <= now do day = day + 1 end
  day_ends[i] = plan[day]
  at = at + 4
end

local shapes, used = {}, {}
for i = 1, plan[6] do
  local day_end, sets = day_ends[plan[at]] or 0, plan[at + 2]
  local shape = {operation = plan[at + 1] % 16, receipts = plan[at + 1] >= 16}
  at = at + 3
  for s = 1, sets do
    local flags, rules = plan[at], plan[at + 1]
    local set = {refund = flags % 2 == 1, allows = flags >= 2}
    at = at + 2
    for j = 1, rules do
      local tag, time, marks = plan[at], plan[at + 1], plan[at + 5]
      used[tag % 8] = true
      set[j] = {
        tag = tag, time = time, weight = plan[at + 2], count = plan[at + 3], size = plan[at + 4], -- size is base or burst
        closes = time == 0 and day_end or now + time, day_end = day_end,
        shadow = marks % 2 == 1, allows = marks >= 2,
      }
      at = at + 6
    end
    shape[s] = set
  end
  shapes[i] = shape
end

local values = plan[4] > 0 and redis.call('MGET', unpack(KEYS, 1, plan[4])) or {}

-- When Redis may expire what is needed until then: with a quarter of slack, so
-- that few steps have to set it again.
local function expiry(till, now, linger)
  local left = math.max(till - now, 0)
  return now + left + math.floor(left / 4) + linger
end

-- An answer as it is sent.
local function answer(reporter, remaining, reset, daily, retry, refusals, hits)
  if not (retry or refusals or hits) then
    return struct.pack('>Bi2I6I7', daily == 1 and 2 or 0, reporter, remaining, reset)
  end
  local flags = (retry and 1 or 0) + (daily == 1 and 2 or 0) + (refusals and 4 or 0) + (hits and 8 or 0)
  local text = struct.pack('>Bi2I6I7', flags, reporter, remaining, reset)
  if retry then text = text .. struct.pack('>I7', retry + 1) end
  if refusals then
    text = text .. struct.pack('>I2', #refusals)
    for i = 1, #refusals do text = text .. struct.pack('>I2', refusals[i]) end
  end
  return hits and text .. struct.pack('>I7', hits) or text
end

-- Counts alone ----------------------------------------------------------------

-- Most rules count, and most calls take. Where that is all, and each subject's
-- value holds that one counter, no states are made: a counter is its hits and
-- the instant at which it closes, by the number of its key. Whatever is
-- otherwise is left to what follows; nothing is written then.

-- The stored counters, nil if a value holds anything else. Tag 0 is none.
local function read_counts(values, n, far, LAYOUT)
  local hits, closes, tags, expires = {}, {}, {}, {}
  for k = 1, n do
    local value, layout, length = values[k], nil, nil
    if not value then
      hits[k], closes[k], tags[k], expires[k] = 0, 0, 0, 0
    else
      if #value ~= 27 then return end
      layout, expires[k], tags[k], closes[k], length, hits[k] = struct.unpack('>BI6I5I6I2I7', value)
      if layout ~= LAYOUT or length ~= 7 or closes[k] >= far or expires[k] >= far then return end
    end
  end
  return {hits = hits, closes = closes, tags = tags, expires = expires, changed = {}}
end

-- Counts the first n rules of a set but the refusals.
local function add_counts(set, n, refusals, plan, at, now, book)
  local hits, closes, skip = book.hits, book.closes, 1
  for j = 1, n do
    local r, k = set[j], plan[at + j]
    if refusals and refusals[skip] == j - 1 then
      skip = skip + 1
    elseif r.weight > 0 then
      if now >= closes[k] then hits[k], closes[k] = 0, r.closes end
      hits[k] = math.min(hits[k] + r.weight, 9007199254740991)
      book.changed[k] = true
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
-- whether it allows; nil where a value holds another rule's counter.
local function decide_counts(set, plan, at, now, book, taking)
  local hits, closes, tags, refusals = book.hits, book.closes, book.tags, nil
  for j = 1, #set do
    local r, k = set[j], plan[at + j]
    if tags[k] ~= r.tag then
      if tags[k] ~= 0 then return end
      tags[k] = r.tag
    end
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

-- A request of several sets: all is counted if each of them allows. Returns
-- where the next request begins, nil as above.
local function take_counts(shape, plan, begin, now, book, answers)
  local hits, closes, changed, upto = book.hits, book.closes, book.changed, begin
  for i = 1, #shape do upto = upto + #shape[i] end
  local before = {}
  for i = begin + 1, upto do
    local k = plan[i]
    before[#before + 1] = {k, hits[k], closes[k], changed[k]}
  end
  local at, allowed, refused, n = begin, {}, false, #answers
  for i = 1, #shape do
    answers[n + i], allowed[i] = decide_counts(shape[i], plan, at, now, book, true)
    if not answers[n + i] then return end
    refused = refused or not allowed[i]
    at = at + #shape[i]
  end
  if refused then
    for _, old in ipairs(before) do hits[old[1]], closes[old[1]], changed[old[1]] = old[2], old[3], old[4] end
    at = begin
    for i = 1, #shape do
      if allowed[i] then answers[n + i] = decide_counts(shape[i], plan, at, now, book, false) end
      at = at + #shape[i]
    end
  end
  return upto
end

-- Writes what was counted, and returns the keys where a value of another type
-- was in the way.
local function write_counts(n, book, now, linger, LAYOUT)
  local damaged = ''
  for k = 1, n do
    if book.changed[k] then
      local closes, expires = book.closes[k], book.expires[k]
      if closes <= expires then -- in place: what follows the tag
        redis.call('SETRANGE', KEYS[k], '12', struct.pack('>I6I2I7', closes, 7, book.hits[k]))
      else
        local absent = expires == 0
        expires = expiry(closes, now, linger)
        local left = string.format('%.0f', expires - now)
        local value = struct.pack('>BI6I5I6I2I7', LAYOUT, expires, book.tags[k], closes, 7, book.hits[k])
        if not absent or not redis.call('SET', KEYS[k], value, 'PX', left, 'NX') then
          if absent then damaged = damaged .. struct.pack('>I2', k) end
          redis.call('SET', KEYS[k], value, 'PX', left)
        end
      end
    end
  end
  return damaged
end

-- The whole reply, nil as above.
local function count_all(at)
  local book = read_counts(values, plan[4], far, LAYOUT)
  if not book then return end
  local plan, shapes, now, answers = plan, shapes, now, {struct.pack('>BI6', 1, now)}
  for _ = 1, plan[7] do
    local shape = shapes[plan[at]]
    if #shape == 1 then
      local text = decide_counts(shape[1], plan, at, now, book, true)
      if not text then return end
      answers[#answers + 1] = text
      at = at + #shape[1] + 1
    else
      at = take_counts(shape, plan, at, now, book, answers)
      if not at then return end
      at = at + 1
    end
  end
  return table.concat(answers) .. write_counts(plan[4], book, now, linger, LAYOUT)
end

if plan[3] == 1 then
  local reply = count_all(at)
  if reply then return reply end
end

-- The methods -----------------------------------------------------------------
--
-- unused   the state of a counter on which nothing was counted
-- look     what the counter says to a rule's weight: admits, limit, remaining,
--          reset, retry (-1 is never), hits (for base the day's), and for base
--          whether the others are about the day, too (1)
-- add      the state with the rule's weight counted, whatever the limits
-- refund   the state with the weight given back, nil if nothing is left
-- receipt  what made another state of one, as receipt.go has it
-- back     the state without what a receipt says, nil if nothing is left
-- decode   the state in the body of an entry, nil if it is none
-- encode   the entry of a state, and the instant from which it is as new

local methods = {}

-- 2^53-1, where counters saturate, is written out below: 9007199254740991.

-- A window is its hits and the instant at which it closes.
local function counted(hits, closes, now)
  return now < closes and hits or 0
end

local function put(hits, closes, n, now, till)
  if n == 0 then return hits, closes end
  if now >= closes then hits, closes = 0, till end
  return math.min(hits + n, 9007199254740991), closes
end

local function take(hits, closes, n, now)
  return now < closes and math.max(hits - n, 0) or hits
end

if used[COUNT] then
  methods[COUNT] = {
    unused = {hits = 0, closes = 0},

    look = function(s, r, now)
      local limit, hits, closes = r.count, s.hits, s.closes
      if now >= closes then hits, closes = 0, r.closes end
      local reset = closes - now
      return hits + r.weight <= limit, limit, math.max(limit - hits, 0), reset, r.weight > limit and -1 or reset, hits
    end,

    add = function(s, r, now)
      local hits, closes = put(s.hits, s.closes, r.weight, now, r.closes)
      return {hits = hits, closes = closes}
    end,

    refund = function(s, r, now)
      return {hits = take(s.hits, s.closes, r.weight, now), closes = s.closes}
    end,

    receipt = function(before, s, now)
      return now >= before.closes and 3 or 1, s.closes, 0, 0
    end,

    -- Whoever opened the window alone, closes it.
    back = function(s, r, now, opened, _, closes)
      if now >= s.closes or s.closes ~= closes then return s end
      local hits = math.max(s.hits - r.weight, 0)
      if hits > 0 or not opened then return {hits = hits, closes = closes} end
    end,

    decode = function(body, till)
      if #body == 7 then return {hits = struct.unpack('>I7', body), closes = till} end
    end,

    encode = function(s, tag)
      return struct.pack('>I5I6I2I7', tag, s.closes, 7, s.hits), s.closes
    end,
  }
end

-- base: today's window, and the second one.
if used[BASE] then
  -- How many of the weight's hits need room in the second window, and how many
  -- count there: those, and the hit that brings today's number to base.
  local function split(s, r, now)
    local free = math.max(r.size - counted(s.hits, s.closes, now), 0)
    local need = math.max(r.weight - free, 0)
    if free > 0 and r.weight >= free then return need, need + 1 end
    return need, need
  end

  methods[BASE] = {
    unused = {hits = 0, closes = 0, second = 0, second_closes = 0},

    look = function(s, r, now)
      local base, limit = r.size, r.count
      local need, counting = split(s, r, now)
      local today, second = counted(s.hits, s.closes, now), counted(s.second, s.second_closes, now)
      local admits = need == 0 or second + counting <= limit
      local retry = counting > limit and -1 or s.second_closes - now
      if today < base then
        local closes = now < s.closes and s.closes or r.day_end
        return admits, base, base - today, closes - now, retry, today, 1
      end
      local reset = now < s.second_closes and s.second_closes - now or r.time
      return admits, limit, math.max(limit - second, 0), reset, retry, today
    end,

    add = function(s, r, now)
      local _, counting = split(s, r, now)
      local hits, closes = put(s.hits, s.closes, r.weight, now, r.day_end)
      local second, second_closes = put(s.second, s.second_closes, counting, now, r.closes)
      return {hits = hits, closes = closes, second = second, second_closes = second_closes}
    end,

    refund = function(s, r, now)
      return {
        hits = take(s.hits, s.closes, r.weight, now), closes = s.closes,
        second = take(s.second, s.second_closes, r.weight, now), second_closes = s.second_closes,
      }
    end,

    receipt = function(before, s, now)
      local counting = s.second - counted(before.second, before.second_closes, now)
      local flags = 1 + (now >= before.closes and 2 or 0)
      if counting == 0 then return flags, s.closes, 0, 0 end
      return flags + (now >= before.second_closes and 4 or 0), s.closes, counting, s.second_closes
    end,

    back = function(s, r, now, opened, opened_second, closes, counting, second_closes)
      local b = {hits = s.hits, closes = s.closes, second = s.second, second_closes = s.second_closes}
      if now < closes and s.closes == closes then
        b.hits = math.max(s.hits - r.weight, 0)
        if b.hits == 0 and opened then b.closes = 0 end
      end
      if counting > 0 and now < second_closes and s.second_closes == second_closes then
        b.second = math.max(s.second - counting, 0)
        if b.second == 0 and opened_second then b.second_closes = 0 end
      end
      if b.closes > 0 or b.second_closes > 0 then return b end
    end,

    decode = function(body, till)
      if #body ~= 26 then return nil end
      local hits, closes, second, second_closes = struct.unpack('>I7I6I7I6', body)
      if closes > till or second_closes > till then return nil end
      return {hits = hits, closes = closes, second = second, second_closes = second_closes}
    end,

    encode = function(s, tag)
      local till = math.max(s.closes, s.second_closes)
      return struct.pack('>I5I6I2I7I6I7I6', tag, till, 26, s.hits, s.closes, s.second, s.second_closes), till
    end,
  }
end


-- leak: runs of hits, oldest first: the instant and the number of all hits ever
-- counted up to the run's end. The numbers begin again at 2^53. The newest runs
-- are in s.runs, older ones from number head to before tail in the log, a
-- string of its own that is read and written in place: however long it is, a
-- step touches a few runs of it.
if used[LEAK] then
  local RUN = 13       -- bytes of a run
  local INLINE = 32    -- runs in a value; beyond it, all but half go to the log
  local SPARE = 1024   -- runs of a counter beyond its limit
  local FEW = 1024     -- runs that are copied in one go
  local MOVE = 256     -- runs of a longer log that a step moves
  local MAX = 16777216 -- runs of any counter
  local LATE = 256     -- runs behind the one that is given back
  local BARE = 4096    -- runs in a value whose log is not named

  local function length(s)
    return s.tail - s.head + #s.runs / 13
  end

  -- Run i, counted from 0: its instant, and the number of all hits to its end.
  local function run(s, i)
    local logged = s.tail - s.head
    if i >= logged then return struct.unpack('>I6I7', s.runs, (i - logged) * 13 + 1) end
    local at = (s.head + i) * 13
    return struct.unpack('>I6I7', redis.call('GETRANGE', s.log, at, at + 12))
  end

  -- The instant of the oldest run; a state keeps it once it was read.
  local function oldest(s)
    if not s.oldest then s.oldest = run(s, 0) end
    return s.oldest
  end

  -- The number of all hits before run i.
  local function up_to(s, i)
    if i == 0 then return s.before end
    local _, n = run(s, i - 1)
    return n
  end

  local function between(from, to)
    return (to - from) % 9007199254740992
  end

  local function forward(from, n)
    local left = 9007199254740992 - n
    return from >= left and from - left or from + n
  end

  -- The first of the runs from i to before n that is after the instant.
  local function after(s, i, n, out)
    while i < n do
      local middle = math.floor((i + n) / 2)
      if run(s, middle) > out then n = middle else i = middle + 1 end
    end
    return i
  end

  -- The first run from i on with which that many hits are together.
  local function reaching(s, i, hits)
    local from, n = up_to(s, i), length(s) - 1
    while i < n do
      local middle = math.floor((i + n) / 2)
      local _, to = run(s, middle)
      if between(from, to) >= hits then n = middle else i = middle + 1 end
    end
    return i
  end

  -- The first run that is not out, the hits from there, and the newest run.
  local function live(s, r, now)
    local n, out = length(s), now - r.time
    if n == 0 then return 0, 0, 0, s.before end
    local newest, total = run(s, n - 1)
    if newest <= out or now >= s.gone then return n, 0, newest, total end
    local first = 0
    if oldest(s) <= out then first = after(s, 1, n - 1, out) end
    return first, between(up_to(s, first), total), newest, total
  end

  -- The state without the runs that are out, its hits, its newest run.
  local function pruned(s, r, now)
    local first, hits, newest, total = live(s, r, now)
    if hits == 0 then
      return {before = 0, head = 0, tail = 0, start = 0, moved = 0, expires = s.expires, runs = '', log = s.log}, 0, 0, 0
    end
    local logged = s.tail - s.head
    local p = {before = up_to(s, first), head = 0, tail = 0, start = 0, moved = 0, expires = s.expires, runs = s.runs, log = s.log}
    if first == 0 then p.oldest = s.oldest end
    if first < logged then
      p.head, p.tail, p.start, p.moved = s.head + first, s.tail, s.start, s.moved
    elseif first > logged then
      p.runs = string.sub(s.runs, (first - logged) * 13 + 1)
    end
    return p, hits, newest, total
  end

  -- Moves what a long log has in use to its begin, which is out: some runs a
  -- step, so that no step keeps Redis for long. Until all have moved they are
  -- read where they were. The runs from number start on move; moved of them have.
  local function move_log(s, log)
    if s.start == 0 then s.start = s.head end
    local moved = math.min(math.max(s.moved, s.head - s.start), s.tail - s.start)
    local n = math.min(s.tail - s.start - moved, MOVE)
    if moved + n > s.start then -- the log grew faster than it moved
      s.start, s.moved = 0, 0
      return
    end
    if n > 0 then
      local at = (s.start + moved) * RUN
      redis.call('SETRANGE', log, moved * RUN, redis.call('GETRANGE', log, at, at + n * RUN - 1))
    end
    s.moved = moved + n
    if s.start + s.moved == s.tail then
      s.head, s.tail, s.start, s.moved = s.head - s.start, s.moved, 0, 0
    end
  end

  -- Moves runs to the log if there are too many, and tidies the log.
  local function write_log(s, log, stored, now)
    local had = stored and stored.tail > 0
    if s.tail == 0 and had then redis.call('DEL', log) end
    local used = s.tail - s.head
    if s.start > 0 or used > FEW and s.head > FEW + used * 1.125 then
      move_log(s, log)
    elseif used <= FEW and s.head > FEW then
      redis.call('SET', log, redis.call('GETRANGE', log, s.head * RUN, s.tail * RUN - 1), 'KEEPTTL')
      s.head, s.tail = 0, s.tail - s.head
    end
    local runs = #s.runs / RUN
    if runs > INLINE and log then
      local bytes = (runs - INLINE / 2) * RUN
      if s.tail == 0 then
        s.expires = expiry(s.gone, now, linger)
        redis.call('SET', log, string.sub(s.runs, 1, bytes), 'PX', string.format('%.0f', s.expires - now))
      else
        redis.call('SETRANGE', log, s.tail * RUN, string.sub(s.runs, 1, bytes))
      end
      s.tail, s.runs = s.tail + bytes / RUN, string.sub(s.runs, bytes + 1)
    end
    if s.tail > 0 and s.gone > s.expires then
      s.expires = expiry(s.gone, now, linger)
      redis.call('PEXPIRE', log, string.format('%.0f', s.expires - now))
    end
  end

  methods[LEAK] = {
    unused = {before = 0, head = 0, tail = 0, start = 0, moved = 0, expires = 0, runs = '', gone = 0},

    look = function(s, r, now)
      local limit, weight = r.count, r.weight
      local first, hits, newest = live(s, r, now)
      local admits, retry = hits + weight <= limit, -1
      if not admits and weight <= limit then
        local at = run(s, reaching(s, first, hits + weight - limit))
        retry = math.max(math.min(at, newest) + r.time - now, 1) -- whatever is in a log that somebody wrote to
      end
      return admits, limit, math.max(limit - hits, 0), hits > 0 and newest + r.time - now or 0, retry, hits
    end,

    add = function(s, r, now)
      local p, hits, newest, total = pruned(s, r, now)
      local at = math.max(now, newest)
      local upto = forward(total, math.min(r.weight, 9007199254740991 - hits))
      if hits > 0 and (at == newest or length(p) >= math.min(r.count + SPARE, MAX)) then
        p.runs = string.sub(p.runs, 1, -14) -- the hits join the newest run
      end
      p.runs = p.runs .. struct.pack('>I6I7', at, upto)
      p.gone = at + r.time
      if #p.runs > BARE * RUN then error('its log is not named') end
      return p
    end,

    refund = function(s, r, now)
      local p, hits, newest_at = pruned(s, r, now)
      local left = hits - r.weight
      if left <= 0 then return nil end
      local last = reaching(p, 0, left)
      local at = math.min(run(p, last), newest_at)
      local newest = struct.pack('>I6I7', at, forward(p.before, left))
      local logged = p.tail - p.head
      if last >= logged then
        p.runs = string.sub(p.runs, 1, (last - logged) * 13) .. newest
      else
        p.tail, p.runs = p.head + last, newest
      end
      p.gone = at + r.time
      return p
    end,

    receipt = function(_, s)
      local at = run(s, length(s) - 1)
      return 1, at, 0, 0
    end,

    -- Off exactly that run: the newest instead would be another caller's. All
    -- numbers from there on become less, so those runs come out of the log.
    back = function(s, r, now, _, _, instant)
      local p, hits = pruned(s, r, now)
      local n = length(p)
      local i = after(p, 0, n, instant - 1)
      if hits == 0 or i >= n or n - i > LATE or run(p, i) ~= instant then return s end
      local _, upto = run(p, i)
      local of_run = between(up_to(p, i), upto)
      local less = math.min(r.weight, of_run)
      local runs, kept, logged = p.runs, {}, p.tail - p.head
      if i < logged then
        runs = redis.call('GETRANGE', p.log, (p.head + i) * RUN, p.tail * RUN - 1) .. runs
        p.tail = p.head + i
      else
        kept[1] = string.sub(runs, 1, (i - logged) * RUN)
        runs = string.sub(runs, (i - logged) * RUN + 1)
      end
      for from = less == of_run and RUN + 1 or 1, #runs, RUN do
        local at, number = struct.unpack('>I6I7', runs, from)
        kept[#kept + 1] = struct.pack('>I6I7', at, (number - less) % 9007199254740992)
      end
      p.runs, p.oldest = table.concat(kept), nil
      n = length(p)
      if n > 0 then
        p.gone = run(p, n - 1) + r.time
        return p
      end
    end,

    decode = function(body, till, log, far)
      if #body < 42 or (#body - 29) % 13 ~= 0 then return nil end
      local before, head, tail, expires, start, moved = struct.unpack('>I7I4I4I6I4I4', body)
      if tail < head or head < start or start < moved then return nil end
      -- The newest run is older than its own end, and numbers go round at 2^53.
      local newest, total = struct.unpack('>I6I7', body, #body - 12)
      if newest >= till or total >= 9007199254740992 or before >= 9007199254740992 then return nil end
      if tail > 0 and not log then error('its log is not named') end
      if tail > head then
        local size = redis.pcall('STRLEN', log)
        if type(size) == 'table' and not string.find(size.err, 'WRONGTYPE', 1, true) then error(size.err, 0) end
        if type(size) ~= 'number' or size < tail * 13 then return nil end
      end
      return {
        before = before, head = head, tail = tail, start = start, moved = moved,
        expires = expires < far and expires or 0, runs = string.sub(body, 30), gone = till, log = log,
      }
    end,

    encode = function(s, tag, log, stored, now)
      write_log(s, log, stored, now)
      local head = struct.pack('>I5I6I2I7I4I4I6I4I4', tag, s.gone, 29 + #s.runs, s.before, s.head, s.tail, s.expires, s.start, s.moved)
      return head .. s.runs, s.gone
    end,
  }
end

-- token: what is missing in the bucket, in token·ms, and the instant at which
-- it was; the rule's time then; the instant from which it is full.
if used[TOKEN] then
  -- a / b rounded up, exact below 2^53.
  local function div_up(a, b)
    local rest = math.fmod(a, b)
    return rest > 0 and (a - rest) / b + 1 or a / b
  end

  -- What is missing now.
  local function short(s, r, now)
    if now >= s.full then return 0 end
    local missing = math.min(s.missing, r.size * r.time)
    if s.time ~= r.time and missing > 0 then
      missing = math.min(div_up(s.missing, s.time), r.size) * r.time
    end
    local elapsed = now - s.at
    if elapsed <= 0 then return missing end
    -- Compared before it is multiplied: count × elapsed may be beyond 2^53.
    if elapsed >= div_up(missing, r.count) then return 0 end
    return missing - r.count * elapsed
  end

  local function whole(level, time)
    return (level - math.fmod(level, time)) / time
  end

  local function state(s, r, now, missing)
    local at = math.max(now, s.at)
    return {missing = missing, at = at, time = r.time, full = at + div_up(missing, r.count)}
  end

  methods[TOKEN] = {
    unused = {missing = 0, at = 0, time = 0, full = 0},

    look = function(s, r, now)
      local burst, weight = r.size, r.weight
      local missing = short(s, r, now)
      local level = burst * r.time - missing
      local tokens = whole(level, r.time)
      local admits, retry = weight <= tokens, -1
      if not admits and weight <= burst then retry = div_up(weight * r.time - level, r.count) end
      return admits, burst, tokens, div_up(missing, r.count), retry, burst - tokens
    end,

    add = function(s, r, now)
      local missing, size = short(s, r, now), r.size * r.time
      if r.weight > whole(size - missing, r.time) then
        return state(s, r, now, size) -- it stops at empty
      end
      return state(s, r, now, missing + r.weight * r.time)
    end,

    refund = function(s, r, now)
      local missing = short(s, r, now)
      if missing == 0 then return s end
      if r.weight >= r.size then return state(s, r, now, 0) end
      return state(s, r, now, math.max(missing - r.weight * r.time, 0))
    end,

    receipt = function(_, s)
      return 1, s.at, 0, 0
    end,

    -- Without the take the bucket may have been full since, and what ran over
    -- then is not there to be given back: all that was refilled since, as far as
    -- can be known, since others may have given back meanwhile.
    back = function(s, r, now, _, _, at)
      local missing, tokens, elapsed = short(s, r, now), r.weight * r.time, math.max(now - at, 0)
      if missing == 0 or s.time ~= r.time or elapsed >= div_up(tokens, r.count) then return s end
      return state(s, r, now, math.max(missing - tokens + r.count * elapsed, 0))
    end,

    decode = function(body, till, _, far)
      if #body ~= 18 then return nil end
      local missing, at, time = struct.unpack('>I7I6I5', body)
      if time > 0 and at < far then return {missing = missing, at = at, time = time, full = till} end
    end,

    encode = function(s, tag)
      local full = math.min(s.full, 140737488355328) -- 2^47, the year 6429: instants have six bytes
      return struct.pack('>I5I6I2I7I6I5', tag, full, 18, s.missing, s.at, s.time), full
    end,
  }
end

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

-- The same where other counters of the request are in other slots: the answers
-- of a look come first, and receipts last. No set of it gives back or denies of
-- itself, and no rule allows.
local function take_apart(shape, counters, from, upto, now, complete, answers)
  local before, begin, n = {}, from, #answers
  for i = from + 1, upto do before[i] = counters[i].state or false end
  for i = 1, #shape do
    answers[n + i] = decide(shape[i], counters, from, now, complete, false)
    from = from + #shape[i]
  end
  from, n = begin, n + #shape
  local receipts, refused = {'\1'}, false
  for i = 1, #shape do
    local set = shape[i]
    local decider, refusals, remaining, reset, retry, daily = walk(set, counters, from, now, complete)
    if decider then
      answers[n + i], refused = answer(decider - 1, remaining, reset, daily, retry, refusals), true
    else
      local skip = 1
      for j = 1, #set do
        local r, c = set[j], counters[from + j]
        if refusals and refusals[skip] == j - 1 then
          skip = skip + 1
          receipts[#receipts + 1] = struct.pack('>BI6I7I6', 0, 0, 0, 0)
        elseif r.weight == 0 then
          receipts[#receipts + 1] = struct.pack('>BI6I7I6', 0, 0, 0, 0)
        else
          local s = c.state or c.method.unused
          c.state = c.method.add(s, r, now)
          receipts[#receipts + 1] = struct.pack('>BI6I7I6', c.method.receipt(s, c.state, now))
        end
      end
      answers[n + i] = report(set, counters, from, now, refusals)
    end
    from = from + #set
  end
  if refused then
    for i = begin + 1, upto do counters[i].state = before[i] or nil end
    receipts = {'\0'}
  end
  answers[n + #shape + 1] = table.concat(receipts)
end

-- The last first: a window is closed by the rule that opened it.
local function give_back(counters, receipts, from, upto, now)
  for i = upto, from + 1, -1 do
    local c, back = counters[i], receipts[i]
    if back[1] > 0 and c.state then
      c.state = c.method.back(c.state, back.rule, now, back[1] % 4 >= 2, back[1] >= 4, back[2], back[3], back[4])
    end
  end
end

-- A request of any other operation: each set is for itself.
local function carry_out(shape, counters, from, now, answers)
  local operation = shape.operation
  for i = 1, #shape do
    local set, text = shape[i], nil
    if operation == BROWSE or operation == COMPLETE then
      text = decide(set, counters, from, now, operation == COMPLETE, false)
    else
      if operation == UPDATE then add(set, #set, nil, counters, from, now)
      elseif operation == REFUND then refund(set, counters, from, now)
      elseif operation == RESET then
        for j = 1, #set do counters[from + j].state = nil end
      end
      text = report(set, counters, from, now, nil, operation == PEEK or operation == RESET)
    end
    answers[#answers + 1] = text
    from = from + #set
  end
end

local subjects, answers = {}, {struct.pack('>BI6', 1, now)}

local function decide_all()
  local counters, receipts, n = {}, {}, 0
  for i = 1, plan[7] do
    local shape, from = shapes[plan[at]], n
    at = at + 1
    for s = 1, #shape do
      local set = shape[s]
      for j = 1, #set do
        local tag, k, log = set[j].tag, plan[at], nil
        at = at + 1
        if tag % 8 == LEAK then log, at = KEYS[plan[at]], at + 1 end
        local subject = subjects[k]
        if not subject then
          subject = parse(values[k], LAYOUT)
          subjects[k] = subject
        end
        n = n + 1
        if shape.operation == GIVE_BACK then
          receipts[n] = {plan[at], plan[at + 1], plan[at + 2], plan[at + 3], rule = set[j]}
          at = at + 4
        end
        counters[n] = counter(subject, tag, methods, log, far)
      end
    end
    local operation = shape.operation
    if shape.receipts then
      take_apart(shape, counters, from, n, now, operation == COMPLETE_TAKE, answers)
    elseif operation == TAKE or operation == COMPLETE_TAKE then
      take(shape, counters, from, n, now, operation == COMPLETE_TAKE, answers)
    else
      if operation == GIVE_BACK then give_back(counters, receipts, from, n, now) end
      carry_out(shape, counters, from, now, answers)
    end
  end
end

-- A fault of one request's would be all callers': they are told that nothing
-- was written, and come again one by one.
local fine, fault = pcall(decide_all)
if not fine then return struct.pack('>BI6', 2, now) .. tostring(fault) end

-- Writing ---------------------------------------------------------------------

-- The subject's entries, and until when they are needed.
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
    elseif body and gone + 86400000 > now then -- else it is over for a day
      parts[#parts + 1] = struct.pack('>I5I6I2', tag, gone, #body) .. body
      till = math.max(till, gone)
    end
  end
  return table.concat(parts), till
end

-- Writes a subject's value. In place is quicker than anew, and keeps the expiry.
-- Returns whether a value of another type was in the way.
local function write(subject, key, now, linger, far, LAYOUT)
  local value, till = entries(subject, now)
  if value == '' then
    redis.call('DEL', key)
  elseif till <= subject.expires and subject.expires < far then -- what is later was not written here, or is a slow bucket's
    if #value + 7 == subject.size then
      redis.call('SETRANGE', key, '7', value)
    else
      redis.call('SET', key, struct.pack('>BI6', LAYOUT, subject.expires) .. value, 'KEEPTTL')
    end
  else
    local expires = expiry(till, now, linger)
    local left = string.format('%.0f', expires - now)
    value = struct.pack('>BI6', LAYOUT, expires) .. value
    -- Where nothing was read, a value of another type may be in the way.
    if not subject.absent or not redis.call('SET', key, value, 'PX', left, 'NX') then
      redis.call('SET', key, value, 'PX', left)
      return subject.absent
    end
  end
end

local damaged = {}
for i = 1, plan[4] do
  local subject, changed = subjects[i], false
  for _, c in pairs(subject.counters) do changed = changed or c.state ~= c.stored end
  if changed and write(subject, KEYS[i], now, linger, far, LAYOUT) or subject.damaged then
    damaged[#damaged + 1] = struct.pack('>I2', i)
  end
end
return table.concat(answers) .. table.concat(damaged)
