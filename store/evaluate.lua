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
-- reply    A msgpack array of integers: 1, now, then for each set
--            decider, reporter, limit, remaining, reset, retry, daily, hits,
--            refusals, then that many indices of rules
--          or, with nothing written, 0, now: no day that was sent fits now.
--
-- A value is a byte that tells the layout, the instant at which Redis expires
-- the key, and entries: tag, the instant from which the counter is as new, the
-- length of the body, the body. The tag is return × 8 + method. Entries that no
-- rule of the plan asks for are carried along: they may belong to other rules,
-- or to other versions of this program. What is no such value is taken for
-- absent.
--
-- There are three phases: everything is read, everything is decided on states
-- that are never changed in place, and what became another state is written.
-- Nothing is written before all is decided, so no fault leaves half a step.

local LAYOUT = 1
local MAX = 9007199254740991   -- 2^53-1, where counters saturate
local ROUND = 9007199254740992 -- 2^53, where the numbers of leak's hits begin again
local DAY = 86400000
local TAKE, BROWSE, UPDATE, REFUND, COMPLETE, COMPLETE_TAKE, PEEK, RESET = 1, 2, 3, 4, 5, 6, 7, 8
-- The numbers of a rule. A rule is known by where they begin in the plan.
local RULE = 8
local SUBJECT = 0 -- which of the KEYS is the subject's
local LOG = 1     -- which is the log's; 0 but for leak
local TAG = 2
local WEIGHT = 3
local TIME = 4    -- ms; 0 for the calendar day
local COUNT = 5
local SIZE = 6    -- base or burst
local FLAGS = 7   -- 1 shadow, 2 allows

local plan = cmsgpack.unpack(ARGV[1])
local spack, sunpack, sub, byte = struct.pack, struct.unpack, string.sub, string.byte
local min, max, floor, fmod = math.min, math.max, math.floor, math.fmod

local now, operation = plan[1], plan[2]
if now == 0 then -- read once: it moves within a script
  local time = redis.call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
end

local day_end = 0
local sets = 5 + plan[4] -- where the sets begin
if plan[4] > 0 then
  if now < plan[5] or now >= plan[sets - 1] then
    return cmsgpack.pack({0, now})
  end
  local i = 5
  while plan[i] <= now do i = i + 1 end
  day_end = plan[i]
end

-- count: hits and the instant at which the window closes. ---------------------

local NONE = {hits = 0, closes = 0}

local function counted(hits, closes)
  return now < closes and hits or 0
end

local function put(hits, closes, n, till)
  if n == 0 then return hits, closes end
  if now >= closes then hits, closes = 0, till end
  return min(hits + n, MAX), closes
end

local function take(hits, closes, n)
  return now < closes and max(hits - n, 0) or hits
end

local function window_end(r)
  return plan[r + TIME] == 0 and day_end or now + plan[r + TIME]
end

-- The look of a method returns: admits, limit, remaining, reset, retry, hits
-- and, for base, daily. A retry of -1 is never.
local function count_look(s, r)
  local limit, weight = plan[r + COUNT], plan[r + WEIGHT]
  local hits = counted(s.hits, s.closes)
  local reset = (now < s.closes and s.closes or window_end(r)) - now
  return hits + weight <= limit, limit, max(limit - hits, 0), reset, weight > limit and -1 or reset, hits
end

local function count_add(s, r)
  local hits, closes = put(s.hits, s.closes, plan[r + WEIGHT], window_end(r))
  return {hits = hits, closes = closes}
end

local function count_refund(s, r)
  return {hits = take(s.hits, s.closes, plan[r + WEIGHT]), closes = s.closes}
end

-- base: today's window and the second one. ------------------------------------

local UNUSED = {hits = 0, closes = 0, second = 0, second_closes = 0}

-- How many of the weight's hits need room in the second window, and how many
-- count there: those, and the hit that brings today's number to base.
local function split(s, r)
  local weight = plan[r + WEIGHT]
  local free = max(plan[r + SIZE] - counted(s.hits, s.closes), 0)
  local need = max(weight - free, 0)
  if free > 0 and weight >= free then return need, need + 1 end
  return need, need
end

local function base_look(s, r)
  local base, limit = plan[r + SIZE], plan[r + COUNT]
  local need, counting = split(s, r)
  local today, second = counted(s.hits, s.closes), counted(s.second, s.second_closes)
  local admits = need == 0 or second + counting <= limit
  local retry = counting > limit and -1 or s.second_closes - now
  if today < base then
    local reset = (now < s.closes and s.closes or day_end) - now
    return admits, base, base - today, reset, retry, today, 1
  end
  local reset = now < s.second_closes and s.second_closes - now or plan[r + TIME]
  return admits, limit, max(limit - second, 0), reset, retry, second
end

local function base_add(s, r)
  local _, counting = split(s, r)
  local hits, closes = put(s.hits, s.closes, plan[r + WEIGHT], day_end)
  local second, second_closes = put(s.second, s.second_closes, counting, now + plan[r + TIME])
  return {hits = hits, closes = closes, second = second, second_closes = second_closes}
end

local function base_refund(s, r)
  local weight = plan[r + WEIGHT]
  return {
    hits = take(s.hits, s.closes, weight), closes = s.closes,
    second = take(s.second, s.second_closes, weight), second_closes = s.second_closes,
  }
end

-- leak: runs of hits, oldest first: the instant and the number of all hits ever
-- counted up to the run's end. The newest runs are in s.runs, older ones from
-- number head to before tail in the log, a string of its own that is read and
-- written in place: however long it is, a step touches a few runs of it.

local RUN = 13 -- bytes of a run
local INLINE = 64 -- runs in a value; beyond it, half go to the log
local MAX_RUNS = 16777216
local EMPTY = {before = 0, head = 0, tail = 0, expires = 0, runs = '', gone = 0}

local function log_key(r)
  return KEYS[plan[r + LOG]]
end

local function length(s)
  return s.tail - s.head + #s.runs / RUN
end

-- Run i, counted from 0: its instant, and the number of all hits to its end.
local function run(s, r, i)
  local logged = s.tail - s.head
  if i >= logged then return sunpack('>I6I7', s.runs, (i - logged) * RUN + 1) end
  local at = (s.head + i) * RUN
  return sunpack('>I6I7', redis.call('GETRANGE', log_key(r), at, at + RUN - 1))
end

-- The number of all hits before run i.
local function up_to(s, r, i)
  if i == 0 then return s.before end
  local _, n = run(s, r, i - 1)
  return n
end

local function between(from, to)
  return to < from and to - from + ROUND or to - from
end

local function forward(from, n)
  return from >= ROUND - n and from - (ROUND - n) or from + n
end

-- The first of the runs from i to before n that is after the instant.
local function search_after(s, r, i, n, out)
  while i < n do
    local middle = floor((i + n) / 2)
    if run(s, r, middle) > out then n = middle else i = middle + 1 end
  end
  return i
end

-- The first run from i on with which that many hits are together.
local function reaching(s, r, i, hits)
  local from, n = up_to(s, r, i), length(s) - 1
  while i < n do
    local middle = floor((i + n) / 2)
    local _, to = run(s, r, middle)
    if between(from, to) >= hits then n = middle else i = middle + 1 end
  end
  return i
end

-- The first run that is not out, the hits from there, and the newest run.
local function live(s, r)
  local n, out = length(s), now - plan[r + TIME]
  if n == 0 then return 0, 0, 0, s.before end
  local newest, total = run(s, r, n - 1)
  if newest <= out then return n, 0, newest, total end
  local first = 0
  if run(s, r, 0) <= out then first = search_after(s, r, 1, n - 1, out) end
  return first, between(up_to(s, r, first), total), newest, total
end

local function leak_look(s, r)
  local limit, weight, time = plan[r + COUNT], plan[r + WEIGHT], plan[r + TIME]
  local first, hits, newest = live(s, r)
  local admits, retry = hits + weight <= limit, -1
  if not admits and weight <= limit then
    local at = run(s, r, reaching(s, r, first, hits + weight - limit))
    retry = at + time - now
  end
  return admits, limit, max(limit - hits, 0), hits > 0 and newest + time - now or 0, retry, hits
end

-- A state without the runs that are out, its hits, its newest run.
local function pruned(s, r)
  local first, hits, newest, total = live(s, r)
  if hits == 0 then
    return {before = 0, head = 0, tail = 0, expires = s.expires, runs = ''}, 0, 0, 0
  end
  local logged = s.tail - s.head
  local p = {before = up_to(s, r, first), expires = s.expires}
  if first >= logged then
    p.head, p.tail, p.runs = 0, 0, sub(s.runs, (first - logged) * RUN + 1)
  else
    p.head, p.tail, p.runs = s.head + first, s.tail, s.runs
  end
  return p, hits, newest, total
end

local function leak_add(s, r)
  local p, hits, newest, total = pruned(s, r)
  local at = max(now, newest)
  local last = spack('>I6I7', at, forward(total, min(plan[r + WEIGHT], MAX - hits)))
  if hits > 0 and (at == newest or hits >= plan[r + COUNT] or length(p) >= MAX_RUNS) then
    -- Hits beyond the limit join the newest run.
    at = newest
    p.runs = sub(p.runs, 1, -RUN - 1) .. spack('>I6', at) .. sub(last, 7)
  else
    p.runs = p.runs .. last
  end
  p.gone = at + plan[r + TIME]
  return p
end

local function leak_refund(s, r)
  local p, hits = pruned(s, r)
  local left = hits - plan[r + WEIGHT]
  if left <= 0 then return nil end
  local last = reaching(p, r, 0, left)
  local at = run(p, r, last)
  local newest = spack('>I6I7', at, forward(p.before, left))
  local logged = p.tail - p.head
  if last >= logged then
    p.runs = sub(p.runs, 1, (last - logged) * RUN) .. newest
  else
    p.tail, p.runs = p.head + last, newest
  end
  p.gone = at + plan[r + TIME]
  return p
end

-- token: what is missing in the bucket, in token·ms, and the instant at which
-- it was; the rule's time then; the instant at which it is full again. --------

local FULL = {missing = 0, at = 0, time = 0, full = 0}

-- a / b rounded down and up, exact below 2^53.
local function div(a, b)
  return (a - fmod(a, b)) / b
end

local function div_up(a, b)
  local rest = fmod(a, b)
  return rest > 0 and (a - rest) / b + 1 or a / b
end

local function short(s, r)
  local time, burst, count = plan[r + TIME], plan[r + SIZE], plan[r + COUNT]
  local missing = min(s.missing, burst * time)
  if s.time ~= time and missing > 0 then
    missing = min(div_up(s.missing, s.time), burst) * time
  end
  local elapsed = now - s.at
  if elapsed <= 0 then return missing end
  -- Compared before it is multiplied: count × elapsed may be beyond 2^53.
  if elapsed >= div_up(missing, count) then return 0 end
  return missing - count * elapsed
end

local function token_look(s, r)
  local time, burst, weight = plan[r + TIME], plan[r + SIZE], plan[r + WEIGHT]
  local missing = short(s, r)
  local level = burst * time - missing
  local tokens = div(level, time)
  local admits, retry = weight <= tokens, -1
  if not admits and weight <= burst then retry = div_up(weight * time - level, plan[r + COUNT]) end
  return admits, burst, tokens, div_up(missing, plan[r + COUNT]), retry, burst - tokens
end

local function token_set(s, r, missing)
  local at = max(now, s.at)
  return {missing = missing, at = at, time = plan[r + TIME], full = at + div_up(missing, plan[r + COUNT])}
end

local function token_add(s, r)
  local time, burst, weight = plan[r + TIME], plan[r + SIZE], plan[r + WEIGHT]
  local missing = short(s, r)
  if weight > div(burst * time - missing, time) then
    return token_set(s, r, burst * time) -- it stops at empty
  end
  return token_set(s, r, missing + weight * time)
end

local function token_refund(s, r)
  local burst, weight = plan[r + SIZE], plan[r + WEIGHT]
  if weight >= burst then return token_set(s, r, 0) end
  return token_set(s, r, max(short(s, r) - weight * plan[r + TIME], 0))
end

local look = {count_look, base_look, leak_look, token_look}
local add = {count_add, base_add, leak_add, token_add}
local refund = {count_refund, base_refund, leak_refund, token_refund}
local unused = {NONE, UNUSED, EMPTY, FULL}

-- Reading ---------------------------------------------------------------------

-- The entries of a value: the order of their tags, and by tag their bodies and
-- the instants from which they are as new.
local function parse(value)
  local subject = {expires = 0, tags = {}, bodies = {}, untils = {}, counters = {}}
  if not value then return subject end
  local size = #value
  if size < 7 or byte(value) ~= LAYOUT then return subject end
  local tags, bodies, untils, at = {}, {}, {}, 8
  while at <= size do
    if at + 12 > size then return subject end
    local tag, till, length = sunpack('>I5I6I2', value, at)
    at = at + 13
    if at + length > size + 1 then return subject end
    tags[#tags + 1], untils[tag], bodies[tag] = tag, till, sub(value, at, at + length - 1)
    at = at + length
  end
  subject.expires = sunpack('>I6', value, 2)
  subject.tags, subject.bodies, subject.untils = tags, bodies, untils
  return subject
end

-- The state in an entry; nil if it is none.
local function decode(method, body, till, r)
  if method == 1 and #body == 7 then
    return {hits = sunpack('>I7', body), closes = till}
  elseif method == 2 and #body == 26 then
    local hits, closes, second, second_closes = sunpack('>I7I6I7I6', body)
    return {hits = hits, closes = closes, second = second, second_closes = second_closes}
  elseif method == 3 and #body >= 21 + RUN and (#body - 21) % RUN == 0 then
    local before, head, tail, expires = sunpack('>I7I4I4I6', body)
    if tail > head then
      local size = redis.pcall('STRLEN', log_key(r))
      if type(size) ~= 'number' or size < tail * RUN then return nil end
    end
    return {before = before, head = head, tail = max(head, tail), expires = expires, runs = sub(body, 22), gone = till}
  elseif method == 4 and #body == 18 then
    local missing, at, time = sunpack('>I7I6I5', body)
    if time == 0 then return nil end
    return {missing = missing, at = at, time = time, full = till}
  end
end

local subjects = plan[3] > 0 and redis.call('MGET', unpack(KEYS, 1, plan[3])) or {}
for i = 1, plan[3] do subjects[i] = parse(subjects[i]) end

-- The counter of a rule: its state, nil if there is none, and the one stored.
local function counter(r)
  local subject, tag = subjects[plan[r + SUBJECT]], plan[r + TAG]
  local c = subject.counters[tag]
  if not c then
    local body, method = subject.bodies[tag], tag % 8
    c = {method = method, rule = r}
    if body then
      c.state = decode(method, body, subject.untils[tag], r)
      c.stored = c.state
    else
      subject.tags[#subject.tags + 1] = tag
    end
    subject.counters[tag] = c
  end
  return c
end

-- Deciding --------------------------------------------------------------------

local function look_at(r)
  local c = counter(r)
  return look[c.method](c.state or unused[c.method], r)
end

-- The numbers of rule j are the answer's.
local function tell(a, j, limit, remaining, reset, daily)
  a.reporter, a.limit, a.remaining, a.reset, a.daily = j, limit, remaining, reset, daily or 0
end

-- Looks at the set's rules in order: up to the one that decides, or all for a
-- complete answer. Returns how many of them a taking set counts.
local function walk(set, a, complete)
  for j = 0, set.rules - 1 do
    local r = set.first + j * RULE
    local admits, limit, remaining, reset, retry, _, daily = look_at(r)
    if not admits then
      local shadow = plan[r + FLAGS] % 2 == 1
      if complete or shadow then a.refusals[#a.refusals + 1] = j end
      if not shadow and a.decider < 0 then
        a.decider, a.retry = j, retry
        tell(a, j, limit, remaining, reset, daily)
        if not complete then return j end
      end
    end
  end
  return set.rules
end

local function allows(set, a)
  if set.refund then return true end
  if a.decider < 0 then return set.allows end
  return operation == TAKE and plan[set.first + a.decider * RULE + FLAGS] >= 2
end

-- Where no rule decided, the one with the least remaining is told of.
local function report(set, a)
  if a.decider >= 0 then return end
  local single = operation == PEEK or operation == RESET
  for j = 0, set.rules - 1 do
    local r = set.first + j * RULE
    if single or plan[r + FLAGS] % 2 == 0 then
      local _, limit, remaining, reset, _, hits, daily = look_at(r)
      if a.reporter < 0 or remaining < a.remaining then
        tell(a, j, limit, remaining, reset, daily)
        if single then a.hits = hits end
      end
    end
  end
end

-- Counts the first n rules of the set but those in refusals.
local function count(set, n, refusals)
  local skip = 1
  for j = 0, n - 1 do
    local r = set.first + j * RULE
    if refusals[skip] == j then
      skip = skip + 1
    elseif plan[r + WEIGHT] > 0 then
      local c = counter(r)
      c.state = add[c.method](c.state or unused[c.method], r)
    end
  end
end

local function give_back(set)
  for j = 0, set.rules - 1 do
    local r = set.first + j * RULE
    local c = counter(r)
    if plan[r + WEIGHT] > 0 and c.state then c.state = refund[c.method](c.state, r) end
  end
end

local function forget(set)
  for j = 0, set.rules - 1 do counter(set.first + j * RULE).state = nil end
end

local function answer()
  return {decider = -1, reporter = -1, limit = 0, remaining = 0, reset = 0, retry = -1, daily = 0, hits = 0, refusals = {}}
end

-- Decides one set of a take, counts it if it allows, and tells whether it does.
local function take_set(set, a)
  if set.refund then
    give_back(set)
  else
    local walked = walk(set, a, operation == COMPLETE_TAKE)
    if not allows(set, a) then
      report(set, a)
      return false
    end
    count(set, walked, a.refusals)
  end
  report(set, a)
  return true
end

-- The answers of a plan that counts everything if every set allows.
local function take_all(list, answers)
  local refused = false
  for i, set in ipairs(list) do
    if not take_set(set, answers[i]) then refused = true end
  end
  if not refused then return end
  for _, subject in ipairs(subjects) do
    for _, c in pairs(subject.counters) do c.state = c.stored end
  end
  for i, set in ipairs(list) do
    if allows(set, answers[i]) then
      answers[i] = answer()
      if not set.refund then walk(set, answers[i], operation == COMPLETE_TAKE) end
      report(set, answers[i])
    end
  end
end

local list, answers = {}, {}
local at = sets + 1
for i = 1, plan[sets] do
  list[i] = {refund = plan[at] % 2 == 1, allows = plan[at] >= 2, rules = plan[at + 1], first = at + 2}
  answers[i] = answer()
  at = at + 2 + plan[at + 1] * RULE
end

if operation == TAKE or operation == COMPLETE_TAKE then
  take_all(list, answers)
else
  for i, set in ipairs(list) do
    local a = answers[i]
    if operation == BROWSE or operation == COMPLETE then walk(set, a, operation == COMPLETE)
    elseif operation == UPDATE then count(set, set.rules, a.refusals)
    elseif operation == REFUND then give_back(set)
    elseif operation == RESET then forget(set)
    end
    report(set, a)
  end
end

-- Writing ---------------------------------------------------------------------

-- When Redis may expire what is needed until then: with slack, so that few
-- steps have to set it again.
local function expiry(till)
  return max(till, now) + floor(max(till - now, 0) / 4) + 1000
end

local function px(expires)
  return string.format('%.0f', expires - now)
end

-- Moves runs to the log if there are too many, and tidies the log.
local function write_log(s, stored, r)
  local key, had = log_key(r), stored and stored.tail > 0
  if s.tail == 0 and had then redis.call('DEL', key) end
  if s.head > 1024 and s.head > s.tail - s.head then
    redis.call('SET', key, redis.call('GETRANGE', key, s.head * RUN, s.tail * RUN - 1), 'KEEPTTL')
    s.head, s.tail = 0, s.tail - s.head
  end
  local runs = #s.runs / RUN
  if runs > INLINE then
    local bytes = (runs - INLINE / 2) * RUN
    if s.tail == 0 then
      s.expires = expiry(s.gone)
      redis.call('SET', key, sub(s.runs, 1, bytes), 'PX', px(s.expires))
    else
      redis.call('SETRANGE', key, s.tail * RUN, sub(s.runs, 1, bytes))
    end
    s.tail, s.runs = s.tail + bytes / RUN, sub(s.runs, bytes + 1)
  end
  if s.tail > 0 and s.gone > s.expires then
    s.expires = expiry(s.gone)
    redis.call('PEXPIRE', key, px(s.expires))
  end
end

-- The entry of a counter's state.
local function encode(tag, c)
  local s, body, till = c.state, nil, nil
  if c.method == 1 then
    body, till = spack('>I7', s.hits), s.closes
  elseif c.method == 2 then
    body, till = spack('>I7I6I7I6', s.hits, s.closes, s.second, s.second_closes), max(s.closes, s.second_closes)
  elseif c.method == 3 then
    write_log(s, c.stored, c.rule)
    body, till = spack('>I7I4I4I6', s.before, s.head, s.tail, s.expires) .. s.runs, s.gone
  else
    body, till = spack('>I7I6I5', s.missing, s.at, s.time), s.full
  end
  return spack('>I5I6I2', tag, till, #body) .. body, till
end

local function write(key, subject)
  local parts, till = {''}, 0
  for _, tag in ipairs(subject.tags) do
    local c, body = subject.counters[tag], subject.bodies[tag]
    if c and c.state ~= c.stored then
      if c.state then
        local entry, gone = encode(tag, c)
        parts[#parts + 1], till = entry, max(till, gone)
      elseif c.stored.tail and c.stored.tail > 0 then
        redis.call('DEL', log_key(c.rule))
      end
    elseif body and subject.untils[tag] + DAY > now then
      parts[#parts + 1], till = spack('>I5I6I2', tag, subject.untils[tag], #body) .. body, max(till, subject.untils[tag])
    end
  end
  if #parts == 1 then
    redis.call('DEL', key)
    return
  end
  local covered = till <= subject.expires
  if not covered then subject.expires = expiry(till) end
  parts[1] = spack('>BI6', LAYOUT, subject.expires)
  if covered then
    redis.call('SET', key, table.concat(parts), 'KEEPTTL')
  else
    redis.call('SET', key, table.concat(parts), 'PX', px(subject.expires))
  end
end

for i, subject in ipairs(subjects) do
  for _, c in pairs(subject.counters) do
    if c.state ~= c.stored then
      write(KEYS[i], subject)
      break
    end
  end
end

-- Replying --------------------------------------------------------------------

local reply = {1, now}
for _, a in ipairs(answers) do
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = a.decider, a.reporter, a.limit, a.remaining
  reply[n + 5], reply[n + 6], reply[n + 7], reply[n + 8] = a.reset, a.retry, a.daily, a.hits
  reply[n + 9] = #a.refusals
  for i, j in ipairs(a.refusals) do reply[n + 9 + i] = j end
end
return cmsgpack.pack(reply)
