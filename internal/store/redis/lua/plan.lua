-- Carries out requests, one after the other, as one atomic step. A request is a
-- plan; those of many callers share the cost of a call, and each sees what the
-- ones before it did. Memory does the same in Go: memory/step.go walks the same way, and
-- count.go, base.go, leak.go and token.go are the methods.
--
-- KEYS     The values of the subjects, each once; then the logs of the leak
--          counters, each once.
--
-- ARGV[1]  A msgpack array of integers:
--            now          ms since the epoch; 0 asks for the clock of Redis
--            linger       how long keys are kept beyond their end, in ms
--            counts       1 if all that is asked for is to take, on count rules
--            subjects, zones, shapes, requests: how many of each there are. The
--                         first so many KEYS are subjects
--            for each zone four instants, ascending: the first is the begin of
--                         a day, each other one an end and a begin
--            for each shape, which is a request without its keys:
--              zone       its number, from 1; 0 if no rule asks for the calendar
--              operation  as in store.go; 9 gives back by undo records; 16 more
--                         requests undo records from a take
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
--                         undo record if it gives back
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
--          before them, if undo records were requested, the answers of a browse for
--          each set, and behind them a byte: 1 if the request was counted, and
--          then for each rule its undo record (undo.go): flags (1 counted, 2
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
