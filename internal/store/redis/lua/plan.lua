-- Carries out requests, one after the other, as one atomic step. A request is one
-- plan. Requests of many callers share the cost of one script call, and each sees
-- the effects of the requests before it. Package memory does the same in Go:
-- memory/step.go walks sets in the same way, and count.go, base.go, leak.go, token.go
-- and hold.go are the methods.
--
-- KEYS     The keys of the subjects and of the receipts that are read, each once;
--          then the keys of the logs of leak and hold counters and of the receipts that
--          are made, each once.
--
-- ARGV[1]  A msgpack array of integers:
--            now          ms since the epoch; 0 means the clock of Redis
--            linger       how long keys are kept beyond their end, in ms; from 10^12
--                         on, the instant at which all keys expire at the latest, with
--                         one second as the time beyond their end
--            subjects, spans, shapes, requests: the number of each. The first
--                         KEYS, as many as subjects, are those of subjects
--            for each span: four instants in ascending order, the borders of
--                         three consecutive units of a calendar
--            for each shape, which is a request without its keys:
--              spans      how many spans its rules use, then the number of each,
--                         from 1
--              operation  as in store.go; 9 gives back by undo records, 10 settles a
--                         receipt, 11 renews it, 12 reads it, 13 leases a part of a
--                         limit, 14 assigns shares of limits; a take plus 16 requests undo records; plus 32, a rule
--                         may wait; plus 64, it makes or spends a receipt; plus 128, a
--                         take with undo records that is refused leaves nothing
--              sets       the number of sets, then for each set:
--                flags    1 refund, 2 allows
--                rules    the number of rules, then for each rule:
--                  tag, time in ms, weight, count, base or burst, flags (1
--                  shadow, 2 allows, 4 overdraft), then the length of the ban in
--                  ms if the flag 8 is set, the longest wait in ms if 16 is, and how
--                  long it keeps a receipt, in ms, if 32 is; 64 marks an outcome rule;
--                  then the share of the limit that may be leased, in thousandths, if
--                  128 is; 256 marks what the rule refuses.
--                  The last three digits of the time say how windows begin: 0 with
--                  their first hits, 999 at multiples of the time since the epoch, and
--                  any other number is the position, from 1, of the rule's calendar
--                  unit among the spans of the shape. A count rule
--                  with a calendar unit has no time beside it
--            for each request:
--              shape      the shape's number, from 1
--              patience   the longest wait of the caller, in ms; only if a rule of
--                         the shape may wait
--              receipt    the number of its key in KEYS; only for receipts. For a
--                         take, then the number of the description in ARGV (receipts.lua)
--              for each rule, set by set: the number of the subject's key in KEYS;
--                         for a leak or hold rule the number of the log's key, 0 if
--                         KEYS does not contain it; if the operation is 9, the four
--                         numbers of the undo record; if it is 10 or 11, the number
--                         of the rule in the description, and for 10 what becomes of
--                         its part (receipts.lua) and the hits; rules without a part
--                         are passed over; if it is 13, the seven numbers of the
--                         request for a part of a limit (lease.lua); if it is 14, the
--                         seven of a usage (assign.lua)
--
-- Reply    A status byte, then the instant by the script's clock in six bytes.
--          Status 0: a span that was sent does not contain the instant; nothing
--          was written. Status 2: a fault, whose text follows; nothing was
--          written. Status 1: for each set of each request there follows:
--            flags      one byte: 1 decided, 2 daily, 4 has refusals, 8 has hits,
--                       16 refused only because of what is leased, 32 banned
--            reporter   two bytes, signed: the index of the rule that the numbers
--                       are about, -1 for none; it is the decider if 1 is set
--            remaining, reset: seven bytes each
--            retry      seven bytes, 2^55 for never; only if 1 is set
--            refusals   two bytes for their number, then two bytes for the index
--                       of each rule; only if 4 is set
--            hits       seven bytes; only if 8 is set
--          If the request wants undo records, the answers of a browse for each set
--          precede these, and a byte follows them: 1 if the request was counted,
--          else 0. If 1, an undo record for each rule (undo.go) follows: flags
--          (1 counted, 2 opened a window, 4 opened the second window, 8 stays if
--          another slot refuses) and numbers of six, seven and six bytes.
--          If a rule of the request may wait, the wait follows the answers in four
--          bytes, 0 for none; else also the indices of the set and of the rule that
--          waits, two bytes each. A take that waits is followed by undo records.
--          A take that may make a receipt is followed by a byte, 1 if it has made one;
--          then by undo records, unless they precede. The reply to the operations 10
--          and 11 is a byte, 1 if the receipt was valid; that to 12 the length of the
--          receipt's value in four bytes, 0 for none, and the value; those to 13 and
--          14 are described in lease.lua and assign.lua.
--          At the end, for each damaged value, the number of its key in KEYS in
--          two bytes.
--
-- A value, by the number of bytes: the layout, the instant at which Redis expires the
-- key, and for each counter its tag, the instant from which it is unused again, and its
-- body:
--
--   02 | expires 6 | tag 5 | until 6 | length 2 | body | tag 5 | ...
--
-- From that instant on the counter is unused even if thresholds have changed since, so
-- that no answer depends on when Redis drops the key. The tag is return × 8 + method. Of
-- two entries with one tag, the first one counts. Entries that belong to no rule of the plan
-- are kept: other rules, or later versions of this program, may use them. Any other value is
-- damaged: it is treated as absent, reported in the reply, and replaced when its key is
-- written. The bodies:
--
--   count  hits 7
--   base   hits 7 | end 6 | hits of the second window 7 | its end 6
--   leak   nothing, for a ban; or: hits before the first run 7 | head 4 | tail 4 |
--          expiry of the log 6 | start 4 | moved 4 | runs: instant 6, hits up to its end 7
--   token  missing 7 | below empty 7 | used at 6 | time 5 | burst 7
--   hold   kind 1 | newest 6 | total 7 | expiry of the hash 6 | for kind 0 runs: end 6,
--          weight 7; for kind 1 leaves: first end 6, weight 7, number of runs 2
--
-- The script has three phases. It reads everything, changes counters, and writes each
-- value that changed once, however many requests changed it. It writes nothing before all
-- is decided, so that no fault leaves half a step.
--
-- The style serves speed, because all of this runs in every call. An addition costs 50
-- instructions of the processor, an access to a table 100 to 150, a call 300, a table 650
-- and more, and a function 400 and some 200 for each outer local that it uses. So functions
-- receive what they need as arguments, library functions are called by their full names,
-- and functions are defined only if the call needs them.

local LAYOUT = 2
local COUNT, BASE, LEAK, TOKEN, HOLD = 1, 2, 3, 4, 5 -- below 8; lease.lua has 0, receipts.lua 6, shares.lua 7
local TAKE, BROWSE, UPDATE, REFUND, COMPLETE, COMPLETE_TAKE, PEEK, RESET, GIVE_BACK = 1, 2, 3, 4, 5, 6, 7, 8, 9
local SETTLE, RENEW, READ, LEASE, ASSIGN = 10, 11, 12, 13, 14

local plan = cmsgpack.unpack(ARGV[1])

local now, linger = plan[1], plan[2]
if now == 0 then -- read once, because the clock advances while a script runs
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local far = now + 63244800000 -- twice the longest time of a rule

local cursor = 7 -- position of the next number in plan
local unit_ends = {} -- of the calendar units that contain the instant
for i = 1, plan[4] do
  if now < plan[cursor] or now >= plan[cursor + 3] then
    return struct.pack('>BI6', 0, now)
  end
  local unit = cursor
  while plan[unit] <= now do unit = unit + 1 end
  unit_ends[i] = plan[unit]
  cursor = cursor + 4
end

-- Neither updates nor refunds change outcome rules and holds.
local function unchanged(r)
  if r.outcome or r.tag % 8 == HOLD then r.weight = 0 end
end

-- Adds the words of a rule that few rules have. need is the weight that must fit, deep
-- lets a token bucket go below empty. Returns the position of the next rule.
local function words(r, marks, plan, at, operation, used)
  if marks % 8 >= 4 then
    r.overdraft, r.deep, r.need = true, true, math.max(r.weight, 1)
  end
  if marks % 16 >= 8 then
    r.ban, at = plan[at], at + 1
  end
  if marks % 32 >= 16 then
    r.wait, at = plan[at], at + 1
    r.deep = r.deep or operation ~= UPDATE
  end
  if marks % 64 >= 32 then
    r.span, at = plan[at], at + 1
    r.outcome = marks % 128 >= 64
    if r.tag % 8 ~= HOLD then r.need = r.outcome and 1 or math.max(r.weight, 1) end
    used.receipts = true
    if operation == UPDATE or operation == REFUND then unchanged(r) end
  end
  if marks % 256 >= 128 then
    r.share, at = plan[at], at + 1
    used.leases = true
  end
  if marks >= 256 then
    r.marked, used.marks = true, true
    r.deep = r.deep or operation ~= UPDATE
  end
  return at
end

-- Reports whether two of n elements are equal, or their fields of a name are. A table takes
-- longer than the comparisons of few, but not more than in proportion to many.
local function twice(list, n, field)
  local seen = n > 8 and {}
  for j = 1, n do
    local one = field and list[j][field] or list[j]
    for i = 1, seen and 0 or j - 1 do
      if one == (field and list[i][field] or list[i]) then return true end
    end
    if seen then
      if seen[one] then return true end
      seen[one] = true
    end
  end
end

-- How many numbers a request has for each rule behind its keys.
local widths = {[GIVE_BACK] = 4, [SETTLE] = 3, [RENEW] = 1, [LEASE] = 7, [ASSIGN] = 7}

-- A table that grows is copied, so shapes and sets begin with room for one element.
local shapes, used = {}, {}
for i = 1, plan[5] do
  local spans = cursor -- the number of a span follows at its position
  cursor = cursor + 1 + plan[cursor]
  local operation, sets = plan[cursor], plan[cursor + 1]
  cursor = cursor + 2
  local rules = {false}
  local shape = {
    false, rules = rules, operation = operation % 16, receipt = operation >= 64,
    plain = false, alone = false, overdraws = false, repeats = false, -- see main.lua
  }
  if operation > 15 then
    used.more = true
    shape.wants_undo, shape.waits = operation % 32 >= 16, operation % 64 >= 32
    if operation >= 128 then shape.tentative, shape.receipt = true, operation % 128 >= 64 end
    if shape.receipt then used.receipts = true end
  end
  local width = widths[shape.operation]
  if width then shape.width, shape.more, used.others = width, true, true end
  local n, kept, resets = 0, 0, operation > 15 or operation == RESET or operation == GIVE_BACK
  local settles = operation == SETTLE + 64
  local plain, wordless, overdraws = settles or operation == TAKE or operation == TAKE + 64, true, true
  if shape.operation ~= TAKE and shape.operation ~= COMPLETE_TAKE then used.others = true end
  for s = 1, sets do
    local flags, size = plan[cursor], plan[cursor + 1]
    local set = {false, refund = flags % 2 == 1, allows = flags >= 2, number = s - 1}
    if size == 0 or flags ~= 2 and not settles then plain = false end
    if set.refund then used.others = true end
    if size == 0 then set[1] = nil end
    cursor = cursor + 2
    for j = 1, size do
      local tag, time, marks, unit_end = plan[cursor], plan[cursor + 1], plan[cursor + 5], nil
      local closes, unit = now + time, time % 1000
      if unit == 999 then
        time = time - unit
        closes = now - now % time + time
      elseif unit > 0 then
        time, unit_end = time - unit, unit_ends[plan[spans + unit]]
        closes = time == 0 and unit_end or now + time
      end
      local method, weight = tag % 8, plan[cursor + 2]
      local r = {
        tag = tag, time = time, weight = weight, count = plan[cursor + 3], size = plan[cursor + 4], -- size is base or burst
        closes = closes, need = weight, counts = method == COUNT, number = j - 1, last = j == size,
      }
      if method == LEAK or method == HOLD then r.logs, shape.more = true, true end
      used[method] = true
      cursor = cursor + 6
      if unit > 0 then r.day_end = unit_end end -- for base
      if resets and (method == TOKEN or method == COUNT and (unit == 999 or time == 0)) then
        r.resets, r.beside, shape.more, used.resets = true, true, true, true
      end
      if marks > 0 then
        r.shadow, r.allows, wordless = marks % 2 == 1, marks % 4 >= 2, false
        cursor = words(r, marks, plan, cursor, shape.operation, used)
        if r.span then
          kept = kept + 1
          r.part = kept
          if set.refund then unchanged(r) end
        end
        if r.overdraft or r.ban then set.lasts, shape.lasts, used.more = true, true, true end
        if r.span or r.share then r.beside, shape.more = true, true end
      end
      if method ~= COUNT or r.outcome or weight == 0 and not settles or r.share and settles then plain = false end
      if marks ~= 4 and marks ~= 6 then overdraws = false end
      for before = 1, n < 8 and n or 0 do
        if rules[before].tag == tag then shape.repeats = true end
      end
      n = n + 1
      set[j], rules[n] = r, r
    end
    shape[s] = set
  end
  if n == 0 then rules[1] = nil end
  if sets == 0 then shape[1] = nil end
  if plain and settles then
    shape.settles = true
  elseif plain then
    shape.plain, shape.overdraws, shape.alone = true, overdraws, (wordless or overdraws) and not shape.receipt
    if n > 8 then shape.repeats = twice(rules, n, 'tag') end
  end
  shapes[i] = shape
end

-- Returns the instant at which Redis may expire a key that is needed until till. A
-- quarter of the time is added, so that few steps have to set it again.
local function expiry(till, now, linger)
  local left = math.max(till - now, 0)
  if linger >= 1e12 then return math.max(math.min(now + left + 1000, linger), now + 1) end
  return now + left + math.floor(left / 4) + linger
end

-- Returns after how many ms Redis may expire a receipt that ends at till.
local function receipt_left(till, now, linger)
  return string.format('%.0f', linger >= 1e12 and expiry(till, now, linger) - now or till - now + linger)
end

-- The maximum size of a receipt in bytes. Sending a larger value could take longer than
-- callers wait, and decisions would then go on without Redis.
local MAX_RECEIPT = 1048576

-- Returns the end of a valid receipt, and the position of each of its parts in the value by
-- the number of its rule; nil for any other value. receipts.lua describes the value.
local function parts_of(value, now)
  if not value or #value < 15 or #value > MAX_RECEIPT or string.byte(value) ~= LAYOUT then return nil end
  local till, n = struct.unpack('>I6I2', value, 8)
  if n > 2048 or #value < 15 + n * 28 or now >= till then return nil end -- no plan has more rules
  local parts = {}
  for at = 16, 15 + n * 28, 28 do
    local rule, weight = struct.unpack('>I2I7', value, at)
    if weight > 9007199254740991 then return nil end
    parts[rule] = at
  end
  return till, parts
end
