-- Carries out one plan as one atomic step. Memory does the same in Go: step.go
-- walks as here, and count.go, base.go, leak.go and token.go are the methods.
--
-- KEYS     The values of the subjects, each once; then the logs of the leak
--          counters, each once.
--
-- ARGV[1]  A msgpack array of integers:
--            now          ms since the epoch; 0 asks for the clock of Redis
--            operation    as in store.go
--            subjects     how many of the KEYS are subjects
--            days, then that many instants, ascending: the first is the begin
--                         of a day, each other one an end and a begin; 0 days
--                         where no rule asks for the calendar
--            sets, then for each of them:
--              flags      1 refund, 2 allows
--              rules, then for each of them the eight numbers named below
--
-- ARGV[2]  How long keys are kept beyond their end, in ms; a second if absent.
--
-- reply    Msgpack integers, one after the other: 1, now, then for each set
--            decider, reporter, limit, remaining, reset, retry, daily, hits,
--            refusals, then that many indices of rules
--          at the end, the number among KEYS, from 1, of each damaged value
--          or, with nothing written, 0, now: no day that was sent fits now.
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
-- that are never changed in place, and what became another state is written.
-- Nothing is written before all is decided, so no fault leaves half a step.
--
-- The style serves speed: all of this runs with every call. To make a function
-- costs next to nothing, and 0.1 µs for each local that it takes from outside.
-- So functions are handed what they need, libraries are named in full, and the
-- functions of a method are made only where a rule asks for it.

local LAYOUT = 1
local COUNT, BASE, LEAK, TOKEN = 1, 2, 3, 4
local TAKE, BROWSE, UPDATE, REFUND, COMPLETE, COMPLETE_TAKE, PEEK, RESET = 1, 2, 3, 4, 5, 6, 7, 8

local plan = cmsgpack.unpack(ARGV[1])

local now, operation = plan[1], plan[2]
if now == 0 then -- read once: it moves within a script
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local day_end = 0
local at = 5 + plan[4] -- where the sets begin
if plan[4] > 0 then
  if now < plan[5] or now >= plan[at - 1] then
    return cmsgpack.pack(0, now)
  end
  local i = 5
  while plan[i] <= now do i = i + 1 end
  day_end = plan[i]
end

local sets, used = {}, {}
local count = plan[at]
at = at + 1
for i = 1, count do
  local set = {refund = plan[at] % 2 == 1, allows = plan[at] >= 2}
  local rules = plan[at + 1]
  at = at + 2
  for j = 1, rules do
    local tag, time, flags = plan[at + 2], plan[at + 4], plan[at + 7]
    set[j] = {
      subject = plan[at], log = KEYS[plan[at + 1]], tag = tag, weight = plan[at + 3],
      time = time, count = plan[at + 5], size = plan[at + 6], -- size is base or burst
      closes = time == 0 and day_end or now + time, day_end = day_end,
      shadow = flags % 2 == 1, allows = flags >= 2,
    }
    used[tag % 8] = true
    at = at + 8
  end
  sets[i] = set
end

-- The methods -----------------------------------------------------------------
--
-- unused   the state of a counter on which nothing was counted
-- look     what the counter says to a rule's weight: admits, limit, remaining,
--          reset, retry (-1 is never), hits, and for base whether they are
--          those of the day (1)
-- add      the state with the rule's weight counted, whatever the limits
-- refund   the state with the weight given back, nil if nothing is left
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

    decode = function(body, till)
      if #body == 7 then return {hits = struct.unpack('>I7', body), closes = till} end
    end,

    encode = function(s, r)
      return struct.pack('>I5I6I2I7', r.tag, s.closes, 7, s.hits), s.closes
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
      return admits, limit, math.max(limit - second, 0), reset, retry, second
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

    decode = function(body, till)
      if #body ~= 26 then return nil end
      local hits, closes, second, second_closes = struct.unpack('>I7I6I7I6', body)
      if closes > till or second_closes > till then return nil end
      return {hits = hits, closes = closes, second = second, second_closes = second_closes}
    end,

    encode = function(s, r)
      local till = math.max(s.closes, s.second_closes)
      return struct.pack('>I5I6I2I7I6I7I6', r.tag, till, 26, s.hits, s.closes, s.second, s.second_closes), till
    end,
  }
end

-- When Redis may expire what is needed until then: with a quarter of slack, so
-- that few steps have to set it again, and ARGV[2] or a second.
local function expiry(till, now)
  local left = math.max(till - now, 0)
  return now + left + math.floor(left / 4) + (ARGV[2] or 1000)
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

  local function length(s)
    return s.tail - s.head + #s.runs / 13
  end

  -- Run i, counted from 0: its instant, and the number of all hits to its end.
  local function run(s, r, i)
    local logged = s.tail - s.head
    if i >= logged then return struct.unpack('>I6I7', s.runs, (i - logged) * 13 + 1) end
    local at = (s.head + i) * 13
    return struct.unpack('>I6I7', redis.call('GETRANGE', r.log, at, at + 12))
  end

  -- The instant of the oldest run; a state keeps it once it was read.
  local function oldest(s, r)
    if not s.oldest then s.oldest = run(s, r, 0) end
    return s.oldest
  end

  -- The number of all hits before run i.
  local function up_to(s, r, i)
    if i == 0 then return s.before end
    local _, n = run(s, r, i - 1)
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
  local function after(s, r, i, n, out)
    while i < n do
      local middle = math.floor((i + n) / 2)
      if run(s, r, middle) > out then n = middle else i = middle + 1 end
    end
    return i
  end

  -- The first run from i on with which that many hits are together.
  local function reaching(s, r, i, hits)
    local from, n = up_to(s, r, i), length(s) - 1
    while i < n do
      local middle = math.floor((i + n) / 2)
      local _, to = run(s, r, middle)
      if between(from, to) >= hits then n = middle else i = middle + 1 end
    end
    return i
  end

  -- The first run that is not out, the hits from there, and the newest run.
  local function live(s, r, now)
    local n, out = length(s), now - r.time
    if n == 0 then return 0, 0, 0, s.before end
    local newest, total = run(s, r, n - 1)
    if newest <= out or now >= s.gone then return n, 0, newest, total end
    local first = 0
    if oldest(s, r) <= out then first = after(s, r, 1, n - 1, out) end
    return first, between(up_to(s, r, first), total), newest, total
  end

  -- The state without the runs that are out, its hits, its newest run.
  local function pruned(s, r, now)
    local first, hits, newest, total = live(s, r, now)
    if hits == 0 then
      return {before = 0, head = 0, tail = 0, start = 0, moved = 0, expires = s.expires, runs = ''}, 0, 0, 0
    end
    local logged = s.tail - s.head
    local p = {before = up_to(s, r, first), head = 0, tail = 0, start = 0, moved = 0, expires = s.expires, runs = s.runs}
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
  local function move_log(s, r)
    if s.start == 0 then s.start = s.head end
    local moved = math.min(math.max(s.moved, s.head - s.start), s.tail - s.start)
    local n = math.min(s.tail - s.start - moved, MOVE)
    if moved + n > s.start then -- the log grew faster than it moved
      s.start, s.moved = 0, 0
      return
    end
    if n > 0 then
      local at = (s.start + moved) * RUN
      redis.call('SETRANGE', r.log, moved * RUN, redis.call('GETRANGE', r.log, at, at + n * RUN - 1))
    end
    s.moved = moved + n
    if s.start + s.moved == s.tail then
      s.head, s.tail, s.start, s.moved = s.head - s.start, s.moved, 0, 0
    end
  end

  -- Moves runs to the log if there are too many, and tidies the log.
  local function write_log(s, r, stored, now)
    local had = stored and stored.tail > 0
    if s.tail == 0 and had then redis.call('DEL', r.log) end
    local used = s.tail - s.head
    if s.start > 0 or used > FEW and s.head > FEW + used * 1.125 then
      move_log(s, r)
    elseif used <= FEW and s.head > FEW then
      redis.call('SET', r.log, redis.call('GETRANGE', r.log, s.head * RUN, s.tail * RUN - 1), 'KEEPTTL')
      s.head, s.tail = 0, s.tail - s.head
    end
    local runs = #s.runs / RUN
    if runs > INLINE then
      local bytes = (runs - INLINE / 2) * RUN
      if s.tail == 0 then
        s.expires = expiry(s.gone, now)
        redis.call('SET', r.log, string.sub(s.runs, 1, bytes), 'PX', string.format('%.0f', s.expires - now))
      else
        redis.call('SETRANGE', r.log, s.tail * RUN, string.sub(s.runs, 1, bytes))
      end
      s.tail, s.runs = s.tail + bytes / RUN, string.sub(s.runs, bytes + 1)
    end
    if s.tail > 0 and s.gone > s.expires then
      s.expires = expiry(s.gone, now)
      redis.call('PEXPIRE', r.log, string.format('%.0f', s.expires - now))
    end
  end

  methods[LEAK] = {
    unused = {before = 0, head = 0, tail = 0, start = 0, moved = 0, expires = 0, runs = '', gone = 0},

    look = function(s, r, now)
      local limit, weight = r.count, r.weight
      local first, hits, newest = live(s, r, now)
      local admits, retry = hits + weight <= limit, -1
      if not admits and weight <= limit then
        local at = run(s, r, reaching(s, r, first, hits + weight - limit))
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
      return p
    end,

    refund = function(s, r, now)
      local p, hits, newest_at = pruned(s, r, now)
      local left = hits - r.weight
      if left <= 0 then return nil end
      local last = reaching(p, r, 0, left)
      local at = math.min(run(p, r, last), newest_at)
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

    decode = function(body, till, r, far)
      if #body < 42 or (#body - 29) % 13 ~= 0 then return nil end
      local before, head, tail, expires, start, moved = struct.unpack('>I7I4I4I6I4I4', body)
      if tail < head or head < start or start < moved then return nil end
      -- The newest run is older than its own end, and numbers go round at 2^53.
      local newest, total = struct.unpack('>I6I7', body, #body - 12)
      if newest >= till or total >= 9007199254740992 or before >= 9007199254740992 then return nil end
      if tail > head then
        local size = redis.pcall('STRLEN', r.log)
        if type(size) ~= 'number' or size < tail * 13 then return nil end
      end
      return {
        before = before, head = head, tail = tail, start = start, moved = moved,
        expires = expires < far and expires or 0, runs = string.sub(body, 30), gone = till,
      }
    end,

    encode = function(s, r, stored, now)
      write_log(s, r, stored, now)
      local head = struct.pack('>I5I6I2I7I4I4I6I4I4', r.tag, s.gone, 29 + #s.runs, s.before, s.head, s.tail, s.expires, s.start, s.moved)
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

    decode = function(body, till, _, far)
      if #body ~= 18 then return nil end
      local missing, at, time = struct.unpack('>I7I6I5', body)
      if time > 0 and at < far then return {missing = missing, at = at, time = time, full = till} end
    end,

    encode = function(s, r)
      local full = math.min(s.full, 140737488355328) -- 2^47, the year 6429: instants have six bytes
      return struct.pack('>I5I6I2I7I6I5', r.tag, full, 18, s.missing, s.at, s.time), full
    end,
  }
end

-- Reading ---------------------------------------------------------------------

-- A value's entries, three places each: tag, the instant from which it is as
-- new, body; n is how many places. Nothing of a damaged value is believed.
local function parse(value, LAYOUT)
  if not value then return {expires = 0, n = 0, counters = {}, absent = true} end
  local size = #value
  if size < 7 or string.byte(value) ~= LAYOUT then return {expires = 0, n = 0, counters = {}, damaged = true} end
  local subject = {expires = struct.unpack('>I6', value, 2), n = 0, counters = {}}
  local at, n = 8, 0
  while at <= size do
    if at + 12 > size then return {expires = 0, n = 0, counters = {}, damaged = true} end
    local tag, till, length = struct.unpack('>I5I6I2', value, at)
    if at + 12 + length > size then return {expires = 0, n = 0, counters = {}, damaged = true} end
    subject[n + 1], subject[n + 2], subject[n + 3] = tag, till, string.sub(value, at + 13, at + 12 + length)
    at, n = at + 13 + length, n + 3
  end
  subject.n = n
  return subject
end

-- The counter of a rule: its state, nil if there is none, and the one stored. No
-- window lasts till far, and no bucket was used then: such an instant is damaged,
-- and would refuse for ever.
local function counter(subject, r, methods, far)
  local tag = r.tag
  local c = subject.counters[tag]
  if c then return c end
  c = {method = methods[tag % 8], rule = r}
  subject.counters[tag] = c
  for i = 1, subject.n, 3 do
    if subject[i] == tag then
      if subject[i + 1] < far or tag % 8 == 4 then -- a bucket may take ages
        c.state = c.method.decode(subject[i + 2], subject[i + 1], r, far)
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

local subjects = plan[3] > 0 and redis.call('MGET', unpack(KEYS, 1, plan[3])) or {}
for i = 1, plan[3] do subjects[i] = parse(subjects[i], LAYOUT) end
local far = now + 63244800000 -- twice the longest time of a rule
for i = 1, #sets do
  local set = sets[i]
  for j = 1, #set do
    local r = set[j]
    r.counter = counter(subjects[r.subject], r, methods, far)
  end
end

-- Deciding --------------------------------------------------------------------

local function look(r, now)
  local c = r.counter
  return c.method.look(c.state or c.method.unused, r, now)
end

-- Looks at the set's rules in order: up to the one that decides, or all for a
-- complete answer. Returns how many of them a taking set counts.
local function walk(set, a, now, complete)
  for j = 1, #set do
    local r = set[j]
    local admits, limit, remaining, reset, retry, _, daily = look(r, now)
    if not admits then
      if complete or r.shadow then a[#a + 1] = j - 1 end
      if not r.shadow and a.decider < 0 then
        a.decider, a.reporter, a.limit, a.remaining, a.reset, a.retry = j - 1, j - 1, limit, remaining, reset, retry
        a.daily = daily
        if not complete then return j - 1 end
      end
    end
  end
  return #set
end

local function allows(set, a, taking)
  if set.refund then return true end
  if a.decider < 0 then return set.allows end
  return taking and set[a.decider + 1].allows
end

-- Where no rule decided, the one with the least remaining is told of.
local function report(set, a, now, single)
  if a.decider >= 0 then return end
  for j = 1, #set do
    local r = set[j]
    if single or not r.shadow then
      local _, limit, remaining, reset, _, hits, daily = look(r, now)
      if a.reporter < 0 or remaining < a.remaining then
        a.reporter, a.limit, a.remaining, a.reset, a.daily = j - 1, limit, remaining, reset, daily
        if single then a.hits = hits end
      end
    end
  end
end

-- Counts the first n rules of the set but those in the answer's refusals.
local function add(set, n, a, now)
  local skip = 1
  for j = 1, n do
    local r = set[j]
    if a[skip] == j - 1 then
      skip = skip + 1
    elseif r.weight > 0 then
      local c = r.counter
      c.state = c.method.add(c.state or c.method.unused, r, now)
    end
  end
end

local function refund(set, now)
  for j = 1, #set do
    local r = set[j]
    local c = r.counter
    if r.weight > 0 and c.state then c.state = c.method.refund(c.state, r, now) end
  end
end

-- An answer; its list part are the indices of rules that refuse.
local function answer()
  return {decider = -1, reporter = -1, limit = 0, remaining = 0, reset = 0, retry = -1, hits = 0}
end

local answers = {}
if operation == TAKE or operation == COMPLETE_TAKE then
  -- Each set is decided, and counted if it allows; all is undone if one does not.
  local taking, refused = operation == TAKE, false
  for i, set in ipairs(sets) do
    local a = answer()
    if set.refund then
      refund(set, now)
    else
      local walked = walk(set, a, now, not taking)
      if allows(set, a, taking) then add(set, walked, a, now) else refused = true end
    end
    report(set, a, now)
    answers[i] = a
  end
  if refused then
    for _, subject in ipairs(subjects) do
      for _, c in pairs(subject.counters) do c.state = c.stored end
    end
    for i, set in ipairs(sets) do
      if allows(set, answers[i], taking) then
        answers[i] = answer()
        if not set.refund then walk(set, answers[i], now, not taking) end
        report(set, answers[i], now)
      end
    end
  end
else
  for i, set in ipairs(sets) do
    local a = answer()
    if operation == BROWSE or operation == COMPLETE then walk(set, a, now, operation == COMPLETE)
    elseif operation == UPDATE then add(set, #set, a, now)
    elseif operation == REFUND then refund(set, now)
    elseif operation == RESET then
      for _, r in ipairs(set) do r.counter.state = nil end
    end
    report(set, a, now, operation == PEEK or operation == RESET)
    answers[i] = a
  end
end

-- Writing ---------------------------------------------------------------------

-- The subject's entries, and until when they are needed.
local function entries(subject, now)
  local parts, till = {}, 0
  for i = 1, subject.n, 3 do
    local tag, gone, body = subject[i], subject[i + 1], subject[i + 2]
    local c = subject.counters[tag]
    if c and c.state ~= c.stored then
      if c.state then
        parts[#parts + 1], gone = c.method.encode(c.state, c.rule, c.stored, now)
        till = math.max(till, gone)
      elseif c.rule.log then
        redis.call('DEL', c.rule.log)
      end
    elseif body and gone + 86400000 > now then -- else it is over for a day
      parts[#parts + 1] = struct.pack('>I5I6I2', tag, gone, #body) .. body
      till = math.max(till, gone)
    end
  end
  return table.concat(parts), till
end

for i = 1, #subjects do
  local subject, changed = subjects[i], false
  for _, c in pairs(subject.counters) do changed = changed or c.state ~= c.stored end
  if changed then
    local value, till = entries(subject, now)
    if value == '' then
      redis.call('DEL', KEYS[i])
    elseif till <= subject.expires and subject.expires < far then -- what is later was not written here, or is a slow bucket's
      redis.call('SET', KEYS[i], struct.pack('>BI6', LAYOUT, subject.expires) .. value, 'KEEPTTL')
    else
      local expires = expiry(till, now)
      local left = string.format('%.0f', expires - now)
      value = struct.pack('>BI6', LAYOUT, expires) .. value
      -- Where nothing was read, a value of another type may be in the way.
      if not subject.absent or not redis.call('SET', KEYS[i], value, 'PX', left, 'NX') then
        subject.damaged = subject.damaged or subject.absent
        redis.call('SET', KEYS[i], value, 'PX', left)
      end
    end
  end
end

-- Replying --------------------------------------------------------------------

local reply = {cmsgpack.pack(1, now)}
for i = 1, #answers do
  local a = answers[i]
  reply[i + 1] = cmsgpack.pack(a.decider, a.reporter, a.limit, a.remaining, a.reset, a.retry, a.daily or 0, a.hits, #a, unpack(a))
end
for i = 1, #subjects do
  if subjects[i].damaged then reply[#reply + 1] = cmsgpack.pack(i) end
end
return table.concat(reply)
