-- Returns the state of a counter, nil if it is unused. The state of a window has hits and
-- closes.
local function state_of(c)
  if c[1] % 8 ~= 1 then return c[4] or nil end
  if c[2] > 0 then return {hits = c[4], closes = c[2]} end
end

-- Sets the state of a counter.
local function set_state(c, s)
  if c[1] % 8 ~= 1 then
    c[4] = s or false
  elseif s then
    if s.hits ~= c[4] or s.closes ~= c[2] then c[2], c[3], c[4] = s.closes, 2, s.hits end
  elseif c[2] > 0 then
    c[2], c[3], c[4] = 0, 2, 0
  end
end

-- Returns what restore needs to undo changes of the first n counters.
local function save(counters, n)
  local before, at = {}, 0
  for i = 1, n do
    local c = counters[i]
    before[at + 1], before[at + 2], before[at + 3] = c[2], c[3], c[4]
    at = at + 3
  end
  return before
end

local function restore(counters, before, n)
  local at = 0
  for i = 1, n do
    local c = counters[i]
    c[2], c[3], c[4] = before[at + 1], before[at + 2], before[at + 3]
    at = at + 3
  end
end

-- Returns an encoded answer. kind is the flag 2, 16 or 32.
local function answer(reporter, remaining, reset, kind, retry, refusals, hits)
  if not (retry or refusals or hits) then
    return struct.pack('>Bi2I7I7', kind or 0, reporter, remaining, reset)
  end
  if retry and retry < 0 then retry = 36028797018963968 end
  if retry and not (refusals or hits) then return struct.pack('>Bi2I7I7I7', (kind or 0) + 1, reporter, remaining, reset, retry) end
  local flags = (retry and 1 or 0) + (kind or 0) + (refusals and 4 or 0) + (hits and 8 or 0)
  local text = struct.pack('>Bi2I7I7', flags, reporter, remaining, reset)
  if retry then text = text .. struct.pack('>I7', retry) end
  if refusals then
    text = text .. struct.pack('>I2', #refusals)
    for i = 1, #refusals do text = text .. struct.pack('>I2', refusals[i]) end
  end
  return hits and text .. struct.pack('>I7', hits) or text
end

-- The methods -----------------------------------------------------------------
--
-- unused       the state of a counter on which nothing was counted
-- read         returns the answer to a rule's weight: admits, limit, remaining,
--              reset, retry (-1 is never), hits (for base the hits of the day), then 2
--              if limit, remaining and reset describe a base rule's day, or 32
--              if the rule is banned; at last the wait of a weight that is admitted
--              for a later instant
-- add          returns the state with the rule's weight counted, regardless of
--              limits
-- refund       returns the state with the weight given back, nil if none remains
-- ban          returns the state that is banned from now, or is banned already
-- undo_record  returns the undo record of the step from one state to another, as
--              described in undo.go
-- give_back    returns the state without the hits of an undo record, nil if none
--              remain
-- mark         returns where the weight of a take was recorded, as described in
--              receipts.lua
-- settle       returns the state with hits in place of the rule's weight, which was
--              recorded there
-- decode       returns the state in the body of an entry, nil if it is damaged
-- encode       returns the entry of a state, and the instant from which the counter
--              is unused again

-- Most takes need only unused, read, add, decode and encode. The others are defined if a
-- request of the call may need them.
local rare = used.more or used.others or used.leases

-- Counters saturate at 2^53-1, which is written below as 9007199254740991. No sum or
-- product may exceed 2^53, up to which numbers are exact: a weight is compared with
-- what is left of a limit.

-- A window is its hits and the instant at which it closes. A ban is a window with 2^54
-- hits, which no counter reaches.

local function open_hits(hits, closes, now)
  return now < closes and hits or 0
end

local function with_hits(hits, closes, n, now, till)
  if n == 0 then return hits, closes end
  if now >= closes then hits, closes = 0, till end
  return hits + math.min(n, 9007199254740991 - hits), closes
end

local function without_hits(hits, closes, n, now)
  return now < closes and math.max(hits - n, 0) or hits
end

local function read_window(hits, closes, r, now)
  local limit, need = r.count, r.need
  if now >= closes then hits, closes = 0, r.closes end
  local reset = closes - now
  if hits > 9007199254740991 then return false, limit, 0, reset, reset, 0, 32 end
  return need <= limit - hits, limit, hits < limit and limit - hits or 0, reset, need > limit and -1 or reset, hits
end

if used[COUNT] and rare then
  methods[COUNT] = {
    unused = {hits = 0, closes = 0},

    read = function(s, r, now) return read_window(s.hits, s.closes, r, now) end,

    ban = function(s, r, now)
      if s.hits > 9007199254740991 and now < s.closes then return s end
      return {hits = 18014398509481984, closes = now + r.ban}
    end,

    add = function(s, r, now)
      if s.hits > 9007199254740991 and now < s.closes then return s end
      local hits, closes = with_hits(s.hits, s.closes, r.weight, now, r.closes)
      return {hits = hits, closes = closes}
    end,

    refund = function(s, r, now)
      if s.hits > 9007199254740991 then return s end
      return {hits = without_hits(s.hits, s.closes, r.weight, now), closes = s.closes}
    end,

    undo_record = function(before, s, now)
      return now >= before.closes and 3 or 1, s.closes, 0, 0
    end,

    -- The take that opened the window closes it if no other hits remain.
    give_back = function(s, r, now, opened, _, closes)
      if now >= s.closes or s.closes ~= closes or s.hits > 9007199254740991 then return s end
      local hits = math.max(s.hits - r.weight, 0)
      if hits > 0 or not opened then return {hits = hits, closes = closes} end
    end,

    mark = function(s, _, now) return now < s.closes and s.closes or 0, 0 end,

    settle = function(s, r, now, hits, closes)
      if now >= s.closes or s.closes ~= closes or s.hits > 9007199254740991 then return s end
      if hits <= r.weight then return {hits = math.max(s.hits - (r.weight - hits), 0), closes = closes} end
      return {hits = s.hits + math.min(hits - r.weight, 9007199254740991 - s.hits), closes = closes}
    end,
  }
end

-- base: the window of today, and the second window.
if used[BASE] then
  -- Divides the hits of the weight. Returns the number of hits above the free ones, which
  -- must fit into the second window; the number that the second window counts: these, and
  -- the last free hit of the day; and today's number.
  local function split(s, r, now)
    local today, weight = now < s.closes and s.hits or 0, r.weight
    local free = today < r.size and r.size - today or 0
    local need = weight > free and weight - free or 0
    if free > 0 and weight >= free then return need, need + 1, today end
    return need, need, today
  end

  methods[BASE] = {
    unused = {hits = 0, closes = 0, second = 0, second_closes = 0},

    read = function(s, r, now)
      local base, limit = r.size, r.count
      local need, counting, today = split(s, r, now)
      local second = now < s.second_closes and s.second or 0
      local admits = need == 0 or counting <= limit - second
      local retry = counting > limit and -1 or s.second_closes - now
      if today < base then
        local closes = now < s.closes and s.closes or r.day_end
        return admits, base, base - today, closes - now, retry, today, 2
      end
      local reset = now < s.second_closes and s.second_closes - now or r.time
      return admits, limit, second < limit and limit - second or 0, reset, retry, today
    end,

    add = function(s, r, now)
      local _, counting = split(s, r, now)
      local hits, closes = with_hits(s.hits, s.closes, r.weight, now, r.day_end)
      local second, second_closes = with_hits(s.second, s.second_closes, counting, now, r.closes)
      return {hits = hits, closes = closes, second = second, second_closes = second_closes}
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

  if rare then
    local base = methods[BASE]

    base.refund = function(s, r, now)
      return {
        hits = without_hits(s.hits, s.closes, r.weight, now), closes = s.closes,
        second = without_hits(s.second, s.second_closes, r.weight, now), second_closes = s.second_closes,
      }
    end

    base.undo_record = function(before, s, now)
      local counting = s.second - open_hits(before.second, before.second_closes, now)
      local flags = 1 + (now >= before.closes and 2 or 0)
      if counting == 0 then return flags, s.closes, 0, 0 end
      return flags + (now >= before.second_closes and 4 or 0), s.closes, counting, s.second_closes
    end

    base.give_back = function(s, r, now, opened, opened_second, closes, counting, second_closes)
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
    end
  end
end
