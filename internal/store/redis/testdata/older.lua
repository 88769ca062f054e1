-- The script of an earlier version of this program, which has no calendar windows,
-- overdrafts, bans and waits. TestOlderVersionsKeepNewStates runs it.

-- Carries out requests, one after the other, as one atomic step. A request is one
-- plan. Requests of many callers share the cost of one script call, and each sees
-- the effects of the requests before it. Package memory does the same in Go:
-- memory/step.go walks sets in the same way, and count.go, base.go, leak.go and
-- token.go are the methods.
--
-- KEYS     The keys of the subjects, each once; then the keys of the leak
--          counters' logs, each once.
--
-- ARGV[1]  A msgpack array of integers:
--            now          ms since the epoch; 0 means the clock of Redis
--            linger       how long keys are kept beyond their end, in ms
--            counts       1 if the script may try the short path (counts.lua)
--            subjects, zones, shapes, requests: the number of each. The first
--                         KEYS, as many as subjects, are those of subjects
--            for each zone: four instants in ascending order, the borders of
--                         three consecutive days
--            for each shape, which is a request without its keys:
--              zone       the zone's number, from 1; 0 if no rule needs the calendar
--              operation  as in store.go; 9 gives back by undo records; a take
--                         plus 16 requests undo records
--              sets       the number of sets, then for each set:
--                flags    1 refund, 2 allows
--                rules    the number of rules, then for each rule:
--                  tag, time in ms (0 is the calendar day), weight, count, base
--                  or burst, flags (1 shadow, 2 allows)
--            for each request:
--              shape      the shape's number, from 1
--              for each rule, set by set: the number of the subject's key in KEYS;
--                         for a leak rule the number of the log's key, 0 if KEYS
--                         does not contain it; and if the operation is 9, the four
--                         numbers of the undo record
--
-- Reply    A status byte, then the instant by the script's clock in six bytes.
--          Status 0: the days sent for a zone do not contain the instant; nothing
--          was written. Status 2: a fault, whose text follows; nothing was
--          written. Status 1: for each set of each request there follows:
--            flags      one byte: 1 decided, 2 daily, 4 has refusals, 8 has hits
--            reporter   two bytes, signed: the index of the rule that the numbers
--                       are about, -1 for none; it is the decider if 1 is set
--            remaining, reset: six and seven bytes
--            retry      seven bytes, plus 1, so that 0 is never; only if 1 is set
--            refusals   two bytes for their number, then two bytes for the index
--                       of each rule; only if 4 is set
--            hits       seven bytes; only if 8 is set
--          If the request wants undo records, the answers of a browse for each set
--          precede these, and a byte follows them: 1 if the request was counted,
--          else 0. If 1, an undo record for each rule (undo.go) follows: flags
--          (1 counted, 2 opened a window, 4 opened the second window) and numbers
--          of six, seven and six bytes.
--          At the end, for each damaged value, the number of its key in KEYS in
--          two bytes.
--
-- A value is a byte that identifies the layout, the instant at which Redis expires
-- the key, and entries. An entry is a tag, the instant from which its counter is
-- unused again, the length of the body, and the body. From that instant on the
-- counter is unused even if thresholds have changed since, so that no answer
-- depends on when Redis drops the key. The tag is return × 8 + method. Entries
-- that belong to no rule of the plan are kept: other rules, or other versions of
-- this program, may use them. Any other value is damaged: it is treated as absent,
-- reported in the reply, and replaced when its key is written.
--
-- The script has three phases. It reads everything, decides everything on states
-- that it never changes in place, and writes each key whose state was replaced
-- once, however many requests changed it. It writes nothing before all is decided,
-- so that no fault leaves half a step.
--
-- The style serves speed, because all of this runs in every call. Defining a
-- function costs almost nothing, and 0.1 µs for each outer local that it uses. So
-- functions receive what they need as arguments, library functions are called by
-- their full names, and the functions of a method are defined only if a rule uses
-- the method.

local LAYOUT = 1
local COUNT, BASE, LEAK, TOKEN = 1, 2, 3, 4
local TAKE, BROWSE, UPDATE, REFUND, COMPLETE, COMPLETE_TAKE, PEEK, RESET, GIVE_BACK = 1, 2, 3, 4, 5, 6, 7, 8, 9

local plan = cmsgpack.unpack(ARGV[1])

local now, linger = plan[1], plan[2]
if now == 0 then -- read once, because the clock advances while a script runs
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local far = now + 63244800000 -- twice the longest time of a rule

local at = 8 -- position of the next number in plan
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
  local shape = {operation = plan[at + 1] % 16, wants_undo = plan[at + 1] >= 16}
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

-- Returns the instant at which Redis may expire a key that is needed until till. A
-- quarter of the time is added, so that few steps have to set it again.
local function expiry(till, now, linger)
  local left = math.max(till - now, 0)
  return now + left + math.floor(left / 4) + linger
end

-- Returns an encoded answer.
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
-- The short path for admitted counts ------------------------------------------

-- Most calls are takes on count rules, and most of them are admitted. If that
-- holds for every request of a call, no counter states are built: a counter is
-- two numbers, its hits and the instant at which its window closes, stored under
-- the position of its key. Everything else leaves the short path before anything
-- is written, and the whole call takes the general one: a rule that refuses, a
-- value that holds anything but the one counter of its rule, a damaged value.

-- Reads the stored counters. Returns nil if a value is not a single count
-- counter. A tag of 0 means that nothing is stored.
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
      head = head - 281474976710656 -- 2^48: the expiry follows LAYOUT, which is 1
      if head < 0 or head >= far or length ~= 7 or till > head then return end
      hits[k], closes[k], tags[k], expires[k] = used, till, tag, head
    else
      return
    end
  end
  return {hits = hits, closes = closes, tags = tags, expires = expires, changed = {}}
end

-- Counts a request on the counters in book and appends the answer of each of its
-- sets, the n+1st and following. Returns the position of the next request in
-- plan, or nil if a rule refuses or a counter is not the rule's own. In changed, 1
-- means that the hits of a counter changed and 2 that its window did, too.
local function admit(shape, plan, at, now, book, answers, n)
  local hits, closes, tags, changed = book.hits, book.closes, book.tags, book.changed
  for i = 1, #shape do
    local set = shape[i]
    local first = at
    for j = 1, #set do
      at = at + 1
      local r, k = set[j], plan[at]
      if tags[k] ~= r.tag then
        if tags[k] ~= 0 then return end
        tags[k] = r.tag
      end
      local used, till, mark = hits[k], closes[k], changed[k] or 1
      if now >= till then used, till, mark = 0, r.closes, 2 end
      used = used + r.weight
      if used > r.count then return end
      hits[k], closes[k], changed[k] = used, till, mark
    end
    local reporter, remaining, reset = -1, 0, 0
    for j = 1, #set do -- once all are counted: two rules may share a counter
      local k = plan[first + j]
      local left = hits[k] < set[j].count and set[j].count - hits[k] or 0
      if reporter < 0 or left < remaining then reporter, remaining, reset = j - 1, left, closes[k] - now end
    end
    answers[n + i] = struct.pack('>Bi2I6I7', 0, reporter, remaining, reset)
  end
  return at + 1
end

-- Writes the changed counters. Returns the numbers of the keys that held a value
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
  return damaged
end

-- Returns the whole reply, or nil if the call must take the general path.
local function count_all(at)
  local book = read_counts(values, plan[4], now, far, unpack)
  if not book then return end
  local plan, shapes, now, answers, n = plan, shapes, now, {struct.pack('>BI6', 1, now)}, 1
  for _ = 1, plan[7] do
    local shape = shapes[plan[at]]
    at = admit(shape, plan, at, now, book, answers, n)
    if not at then return end
    n = n + #shape
  end
  return table.concat(answers) .. write_counts(plan[4], book, now, linger, LAYOUT)
end

if plan[3] == 1 then
  local reply = count_all(at)
  if reply then return reply end
end
-- The methods -----------------------------------------------------------------
--
-- unused       the state of a counter on which nothing was counted
-- read         returns the answer to a rule's weight: admits, limit, remaining,
--              reset, retry (-1 is never), hits (for base those of the day), and
--              for base 1 if limit, remaining and reset are those of the day
-- add          returns the state with the rule's weight counted, regardless of
--              limits
-- refund       returns the state with the weight given back, nil if none remains
-- undo_record  returns the undo record of the step from one state to another, as
--              described in undo.go
-- give_back    returns the state without the hits of an undo record, nil if none
--              remain
-- decode       returns the state in the body of an entry, nil if it is damaged
-- encode       returns the entry of a state, and the instant from which the counter
--              is unused again

local methods = {}

-- Counters saturate at 2^53-1, which is written below as 9007199254740991.

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

    read = function(s, r, now)
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

    undo_record = function(before, s, now)
      return now >= before.closes and 3 or 1, s.closes, 0, 0
    end,

    -- The take that opened the window closes it if no other hits remain.
    give_back = function(s, r, now, opened, _, closes)
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

-- base: the window of today, and the second window.
if used[BASE] then
  -- Returns the number of the weight's hits that must fit into the second window,
  -- and the number that count there: those, and the hit that raises today's number
  -- to base.
  local function split(s, r, now)
    local free = math.max(r.size - counted(s.hits, s.closes, now), 0)
    local need = math.max(r.weight - free, 0)
    if free > 0 and r.weight >= free then return need, need + 1 end
    return need, need
  end

  methods[BASE] = {
    unused = {hits = 0, closes = 0, second = 0, second_closes = 0},

    read = function(s, r, now)
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

    undo_record = function(before, s, now)
      local counting = s.second - counted(before.second, before.second_closes, now)
      local flags = 1 + (now >= before.closes and 2 or 0)
      if counting == 0 then return flags, s.closes, 0, 0 end
      return flags + (now >= before.second_closes and 4 or 0), s.closes, counting, s.second_closes
    end,

    give_back = function(s, r, now, opened, opened_second, closes, counting, second_closes)
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
-- leak: runs of hits, oldest first. A run is an instant and the number of all hits
-- ever counted up to the run's end; the numbers wrap around at 2^53. The newest
-- runs are in s.runs. Older runs, from number head to before tail, are in the log,
-- a string of its own that is read and written in place: however long it is, a step
-- touches only a few of its runs.
if used[LEAK] then
  local RUN = 13       -- bytes of a run
  local INLINE = 32    -- most runs in a value; of more, all but half go to the log
  local SPARE = 1024   -- runs that a counter may have beyond its limit
  local FEW = 1024     -- most runs that one step copies
  local MOVE = 256     -- runs of a longer log that one step moves
  local MAX = 16777216 -- most runs of any counter
  local LATE = 256     -- most runs from the one that is given back to the newest
  local BARE = 4096    -- most runs in a value whose log is not in KEYS

  -- Returns the number of runs.
  local function length(s)
    return s.tail - s.head + #s.runs / 13
  end

  -- Returns the instant of run i, from 0, and the number of all hits to its end.
  local function run(s, i)
    local logged = s.tail - s.head
    if i >= logged then return struct.unpack('>I6I7', s.runs, (i - logged) * 13 + 1) end
    local at = (s.head + i) * 13
    return struct.unpack('>I6I7', redis.call('GETRANGE', s.log, at, at + 12))
  end

  -- Returns the instant of the oldest run, which is read once per state.
  local function oldest(s)
    if not s.oldest then s.oldest = run(s, 0) end
    return s.oldest
  end

  -- Returns the number of all hits before run i.
  local function up_to(s, i)
    if i == 0 then return s.before end
    local _, n = run(s, i - 1)
    return n
  end

  -- Returns the number of hits from one number to a later one.
  local function between(from, to)
    return (to - from) % 9007199254740992
  end

  -- Returns the number that follows from by n hits.
  local function forward(from, n)
    local left = 9007199254740992 - n
    return from >= left and from - left or from + n
  end

  -- Returns the first run in [i, n) that is later than the instant out; n if none
  -- is.
  local function after(s, i, n, out)
    while i < n do
      local middle = math.floor((i + n) / 2)
      if run(s, middle) > out then n = middle else i = middle + 1 end
    end
    return i
  end

  -- Returns the first run at which the hits from run i on add up to hits.
  local function reaching(s, i, hits)
    local from, n = up_to(s, i), length(s) - 1
    while i < n do
      local middle = math.floor((i + n) / 2)
      local _, to = run(s, middle)
      if between(from, to) >= hits then n = middle else i = middle + 1 end
    end
    return i
  end

  -- Returns the first run that has not left, the number of hits from there on, and
  -- the newest run.
  local function live(s, r, now)
    local n, out = length(s), now - r.time
    if n == 0 then return 0, 0, 0, s.before end
    local newest, total = run(s, n - 1)
    if newest <= out or now >= s.gone then return n, 0, newest, total end
    local first = 0
    if oldest(s) <= out then first = after(s, 1, n - 1, out) end
    return first, between(up_to(s, first), total), newest, total
  end

  -- Returns the state without the runs that have left, its hits and its newest run.
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

  -- Moves the runs of a long log to its beginning, whose runs have left. Each step
  -- moves only some, so that none occupies Redis for long. Until all have moved,
  -- runs are read at their old positions. start is the number of the first run that
  -- moves, moved the number of runs that have.
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

  -- Moves runs to the log if the value holds too many, and compacts the log.
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

    read = function(s, r, now)
      local limit, weight = r.count, r.weight
      local first, hits, newest = live(s, r, now)
      local admits, retry = hits + weight <= limit, -1
      if not admits and weight <= limit then
        local at = run(s, reaching(s, first, hits + weight - limit))
        retry = math.max(math.min(at, newest) + r.time - now, 1) -- valid even if another program wrote to the log
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

    undo_record = function(_, s)
      local at = run(s, length(s) - 1)
      return 1, at, 0, 0
    end,

    -- Takes the hits from exactly that run: the newest may be another caller's. All
    -- numbers from there on decrease, so those runs are read out of the log.
    give_back = function(s, r, now, _, _, instant)
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
      -- The newest run is before the counter's end, and numbers are below 2^53.
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
-- token: the amount missing in the bucket, in token·ms, and the instant at which it
-- was computed; the rule's time then; the instant from which the bucket is full.
if used[TOKEN] then
  -- Returns a / b rounded up, exact below 2^53.
  local function div_up(a, b)
    local rest = math.fmod(a, b)
    return rest > 0 and (a - rest) / b + 1 or a / b
  end

  -- Returns the amount missing now.
  local function missing_at(s, r, now)
    if now >= s.full then return 0 end
    local missing = math.min(s.missing, r.size * r.time)
    if s.time ~= r.time and missing > 0 then
      missing = math.min(div_up(s.missing, s.time), r.size) * r.time
    end
    local elapsed = now - s.at
    if elapsed <= 0 then return missing end
    -- Compare before multiplying: count × elapsed may exceed 2^53.
    if elapsed >= div_up(missing, r.count) then return 0 end
    return missing - r.count * elapsed
  end

  -- Returns the number of whole tokens in a level.
  local function whole(level, time)
    return (level - math.fmod(level, time)) / time
  end

  -- Returns the state with an amount missing now.
  local function state(s, r, now, missing)
    local at = math.max(now, s.at)
    return {missing = missing, at = at, time = r.time, full = at + div_up(missing, r.count)}
  end

  methods[TOKEN] = {
    unused = {missing = 0, at = 0, time = 0, full = 0},

    read = function(s, r, now)
      local burst, weight = r.size, r.weight
      local missing = missing_at(s, r, now)
      local level = burst * r.time - missing
      local tokens = whole(level, r.time)
      local admits, retry = weight <= tokens, -1
      if not admits and weight <= burst then retry = div_up(weight * r.time - level, r.count) end
      return admits, burst, tokens, div_up(missing, r.count), retry, burst - tokens
    end,

    add = function(s, r, now)
      local missing, size = missing_at(s, r, now), r.size * r.time
      if r.weight > whole(size - missing, r.time) then
        return state(s, r, now, size) -- an empty bucket gets no emptier
      end
      return state(s, r, now, missing + r.weight * r.time)
    end,

    refund = function(s, r, now)
      local missing = missing_at(s, r, now)
      if missing == 0 then return s end
      if r.weight >= r.size then return state(s, r, now, 0) end
      return state(s, r, now, math.max(missing - r.weight * r.time, 0))
    end,

    undo_record = function(_, s)
      return 1, s.at, 0, 0
    end,

    -- Tokens that were refilled since the take are not given back. Without the take
    -- the bucket might have been full, and the refill lost. Whether it was cannot be
    -- known, because other calls may have given back meanwhile.
    give_back = function(s, r, now, _, _, at)
      local missing, tokens, elapsed = missing_at(s, r, now), r.weight * r.time, math.max(now - at, 0)
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

-- Returns the entries of a value, three elements each: tag, the instant from which
-- the counter is unused again, body; n is the number of elements. Nothing of a
-- damaged value is used.
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

-- The functions below receive the counters of all requests; those of a set begin
-- at from + 1.

local function read(r, c, now)
  return c.method.read(c.state or c.method.unused, r, now)
end

-- Reads the set's rules in order: up to the one that decides, or all for a
-- complete answer. Returns the position of the rule that decides, the indices of
-- the rules that refuse without deciding (for a complete answer, of all rules that
-- refuse), and the numbers of the rule that decides.
local function walk(set, counters, from, now, complete)
  local decider, remaining, reset, retry, daily, refusals
  for j = 1, #set do
    local r = set[j]
    local admits, _, left, till, wait, _, today = read(r, counters[from + j], now)
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

-- Returns the answer if no rule decided: the numbers of the rule with the least
-- remaining.
local function report(set, counters, from, now, refusals, single)
  local reporter, remaining, reset, daily, hits = -1, 0, 0, nil, single and 0 or nil
  for j = 1, #set do
    local r = set[j]
    if single or not r.shadow then
      local _, _, left, till, _, counted, today = read(r, counters[from + j], now)
      if reporter < 0 or left < remaining then
        reporter, remaining, reset, daily = j - 1, left, till, today
        if single then hits = counted end
      end
    end
  end
  return answer(reporter, remaining, reset, daily, nil, refusals, hits)
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
-- Carrying out ---------------------------------------------------------------

-- Carries out the part of a take whose other counters are in other slots: a take
-- that wants undo records. Appends the answers of a browse, the answers, and the
-- undo records. Its sets neither refund nor deny by default, and none of its rules
-- allows.
local function take_part(shape, counters, from, upto, now, complete, answers)
  local before, begin, n = {}, from, #answers
  for i = from + 1, upto do before[i] = counters[i].state or false end
  for i = 1, #shape do
    answers[n + i] = decide(shape[i], counters, from, now, complete, false)
    from = from + #shape[i]
  end
  from, n = begin, n + #shape
  local undos, refused = {'\1'}, false
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
          undos[#undos + 1] = struct.pack('>BI6I7I6', 0, 0, 0, 0)
        elseif r.weight == 0 then
          undos[#undos + 1] = struct.pack('>BI6I7I6', 0, 0, 0, 0)
        else
          local s = c.state or c.method.unused
          c.state = c.method.add(s, r, now)
          undos[#undos + 1] = struct.pack('>BI6I7I6', c.method.undo_record(s, c.state, now))
        end
      end
      answers[n + i] = report(set, counters, from, now, refusals)
    end
    from = from + #set
  end
  if refused then
    for i = begin + 1, upto do counters[i].state = before[i] or nil end
    undos = {'\0'}
  end
  answers[n + #shape + 1] = table.concat(undos)
end

-- Gives back by undo records, in reverse order: the rule that opened a window
-- closes it.
local function give_back(counters, undos, from, upto, now)
  for i = upto, from + 1, -1 do
    local c, undo = counters[i], undos[i]
    if undo[1] > 0 and c.state then
      c.state = c.method.give_back(c.state, undo.rule, now, undo[1] % 4 >= 2, undo[1] >= 4, undo[2], undo[3], undo[4])
    end
  end
end

-- Carries out a request of any other operation: each set is independent.
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
  local counters, undos, n = {}, {}, 0
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
          undos[n] = {plan[at], plan[at + 1], plan[at + 2], plan[at + 3], rule = set[j]}
          at = at + 4
        end
        counters[n] = counter(subject, tag, methods, log, far)
      end
    end
    local operation = shape.operation
    if shape.wants_undo then
      take_part(shape, counters, from, n, now, operation == COMPLETE_TAKE, answers)
    elseif operation == TAKE or operation == COMPLETE_TAKE then
      take(shape, counters, from, n, now, operation == COMPLETE_TAKE, answers)
    else
      if operation == GIVE_BACK then give_back(counters, undos, from, n, now) end
      carry_out(shape, counters, from, now, answers)
    end
  end
end

-- A fault in one request would fail all callers of the script call: the reply says
-- that nothing was written, and each request is sent again alone.
local fine, fault = pcall(decide_all)
if not fine then return struct.pack('>BI6', 2, now) .. tostring(fault) end
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
  for _, c in pairs(subject.counters) do changed = changed or c.state ~= c.stored end
  if changed and write(subject, KEYS[i], now, linger, far, LAYOUT) or subject.damaged then
    damaged[#damaged + 1] = struct.pack('>I2', i)
  end
end
return table.concat(answers) .. table.concat(damaged)
