-- Taking ----------------------------------------------------------------------

local note, leave, leave_all, join_set, not_marked -- for undo records, words of rules, and receipts

if used.marks then
  -- Returns the refusals of a set's rules that are not marked.
  not_marked = function(set, refusals)
    local list = {}
    for i = 1, #refusals do
      if not set[refusals[i] + 1].marked then list[#list + 1] = refusals[i] end
    end
    return list
  end
end

if used.more then
  -- Records the undo record of the step from the state before to the counter's state.
  -- stays is 8 if the step stays even if another slot refuses, else 0.
  note = function(undos, at, before, c, r, now, waits, stays)
    local flags, a, b, d = r.method.undo_record(before, state_of(c), now, r)
    if r.tag % 8 == TOKEN and waits then flags = flags + 2 end
    if names_reset(c, r) then d = reset_of(c, now) end
    undos[at] = {flags + stays, a, b, d}
  end

  -- Records what a take leaves on a rule that its walk reached, whatever the verdict: the
  -- ban that its refusal opens, or the weight of an overdraft. Reports whether it counted
  -- the weight.
  leave = function(r, c, refuses, now)
    if r.weight == 0 then return false end
    if refuses and r.ban and (r.outcome and 1 or r.weight) <= r.count then
      local s = state_of(c) or r.method.unused
      local banned = r.method.ban(s, r, now)
      if banned ~= s and c.resets then renumber(c, now) end
      set_state(c, banned)
      return false
    end
    return r.overdraft and not r.outcome and count(r, c, now)
  end

  -- Leaves what lasts of set's rules up to the one that decides, and appends it to lasting.
  leave_all = function(set, upto, decider, refusals, counters, from, now, lasting, undos, waits)
    local skip = 1
    for j = 1, upto do
      local r, c, refuses = set[j], counters[from + j], j == decider
      if refusals and refusals[skip] == j - 1 then refuses, skip = true, skip + 1 end
      if r.overdraft or r.ban then
        local before = undos and (state_of(c) or r.method.unused)
        if leave(r, c, refuses, now) and undos then note(undos, from + j, before, c, r, now, waits, 8) end
        lasting[#lasting + 1] = {r, c, refuses, from + j}
      end
    end
  end

  -- Adds the parts of an allowed set to the parts of a receipt.
  join_set = function(parts, set, decider, refusals, counters, from, now)
    local skip = 1
    for j = 1, decider or #set do
      local r, admits = set[j], j ~= decider
      if refusals and refusals[skip] == j - 1 then admits, skip = false, skip + 1 end
      if j == decider then
        local s = state_of(counters[from + j]) -- a ban records no overdraft
        admits = r.overdraft and r.weight > 0 and not (r.outcome or s.banned or s.hits and s.hits > 9007199254740991)
      end
      if r.span and admits and (r.weight > 0 or not r.outcome and r.tag % 8 ~= HOLD) then join(parts, r, counters[from + j], now) end
    end
  end
end

-- Decides and counts a set of a take. Appends to lasting what stays whatever the verdict of
-- the others, and to parts what a receipt of the take concerns. Returns the answer, and
-- whether the set is allowed.
local function take_set(set, counters, from, now, complete, turn, lasting, undos, parts, waits)
  local decider, refusals, remaining, reset, retry, kind, hits = walk(set, counters, from, now, complete, turn)
  local allows, upto = set.allows, #set
  if decider then allows, upto = not complete and set[decider].allows, decider end
  if set.lasts then
    leave_all(set, upto, decider, refusals, counters, from, now, lasting, undos, waits)
    if decider and (set[decider].overdraft or set[decider].ban) then
      local _, _, left, till, again, counted, daily = read(set[decider], counters[from + decider], now)
      remaining, reset, retry, kind, hits = left, till, again, daily, hits and counted
    end
  end
  if allows then
    local skip, uncounted = 1, refusals
    if refusals and used.marks then uncounted = not_marked(set, refusals) end
    for j = 1, decider and decider - 1 or upto do
      local r, c = set[j], counters[from + j]
      if uncounted and uncounted[skip] == j - 1 then
        skip = skip + 1
      elseif r.weight > 0 and not (r.overdraft or r.outcome) then
        local before = undos and (state_of(c) or r.method.unused)
        if count(r, c, now) and undos then note(undos, from + j, before, c, r, now, waits, 0) end
      end
    end
    if parts then join_set(parts, set, decider, uncounted, counters, from, now) end
  end
  if decider then return answer(decider - 1, remaining, reset, kind, retry, refusals, hits), allows end
  return report(set, counters, from, now, refusals), allows
end

-- Restores the states before a take, but for what lasts. Returns a turn in which sets are
-- answered again: what admitted in its turn admits again, and what lasts shows in the
-- figures.
local function undo(counters, before, n, lasting, now)
  restore(counters, before, n)
  local admitted = {}
  for i = 1, lasting and #lasting or 0 do
    local r, c, refuses, at = unpack(lasting[i])
    leave(r, c, refuses, now)
    if not refuses then admitted[at] = true end
  end
  return {wait = 0, admitted = admitted}
end

-- Carries out a request that counts everything if each of its sets is allowed, else
-- nothing but what lasts. It has n counters. Appends its answers. If split is true, it is
-- the part of a take whose other counters are in other slots, which wants undo records:
-- the answers of a browse, as after a refusal by another slot, precede its answers, and
-- its sets do not refund. Returns whether it is allowed.
local function take(shape, counters, n, now, complete, answers, turn, undos, parts, split)
  local sets, lasting, refused = #shape, shape.lasts and {}, false
  local before = (split or sets > 1) and save(counters, n)
  local resets -- that the counters remember, which a ban changes
  if split and shape.tentative then
    resets = {}
    for i = 1, n do resets[i] = counters[i].resets and counters[i].resets[4] or false end
  end
  local from, first = 0, #answers + (split and sets or 0)
  for i = 1, sets do
    local set = shape[i]
    if set.refund then
      refund(set, counters, from, now)
      answers[first + i], set.allowed = report(set, counters, from, now), true
    else
      answers[first + i], set.allowed = take_set(set, counters, from, now, complete, turn, lasting, undos, parts, shape.waits or parts)
    end
    refused = refused or not set.allowed
    from = from + #set
  end
  if refused and turn then turn.wait = 0 end
  if before and (split or refused) then
    local after = split and not refused and save(counters, n)
    local again = undo(counters, before, n, lasting, now)
    from, first = 0, first - (split and sets or 0)
    for i = 1, sets do
      local set = shape[i]
      if set.refund then answers[first + i] = report(set, counters, from, now)
      elseif split or set.allowed then answers[first + i] = browse(set, counters, from, now, complete, again) end
      from = from + #set
    end
    if after then restore(counters, after, n) end
    if refused and resets then
      restore(counters, before, n)
      for i = 1, n do
        if counters[i].resets then counters[i].resets[4] = resets[i] end
      end
    end
  end
  return not refused
end

-- Returns the encoded undo records of n counters.
local function encode_undos(undos, n)
  if not undos then return '\0' end
  local texts = {'\1'}
  for i = 1, n do
    local u = undos[i]
    texts[i + 1] = u and struct.pack('>BI6I7I6', u[1], u[2], u[3], u[4]) or struct.pack('>BI6I7I6', 0, 0, 0, 0)
  end
  return table.concat(texts)
end
