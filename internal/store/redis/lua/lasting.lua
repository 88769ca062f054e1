-- Overdrafts, bans and waits ---------------------------------------------------
--
-- If a rule of the call has one of these, the functions below replace those of
-- decide.lua.

if used.lasting or used.waits then
  -- Records the undo record of the step from the state before to the counter's state.
  -- stays is 8 if the step stays even if another slot refuses, else 0.
  local function note(undos, at, before, c, r, now, waits, stays)
    local flags, a, b, d = c.method.undo_record(before, c.state, now, r)
    if r.tag % 8 == TOKEN and waits then flags = flags + 2 end
    if names_reset(c, r) then d = reset_of(c, now) end
    undos[at] = {flags + stays, a, b, d}
  end

  -- As in decide.lua. turn has the longest wait so far and, while sets are answered
  -- again after another was refused, the rules that admitted in their turn.
  walk = function(set, counters, from, now, complete, turn)
    local decider, remaining, reset, retry, kind, refusals, hits
    for j = 1, #set do
      local r = set[j]
      local admits, _, left, till, again, counted, daily, wait = read(r, counters[from + j], now)
      if not admits and turn and turn.admitted then admits = turn.admitted[from + j] end
      if not admits then
        if complete or r.shadow then
          refusals = refusals or {}
          refusals[#refusals + 1] = j - 1
        end
        if not (r.shadow or decider) then
          decider, remaining, reset, retry, kind, hits = j, left, till, again, daily, r.overdraft and counted
          if not complete then break end
        end
      elseif wait and turn and wait > turn.wait and not r.shadow then
        turn.wait, turn.set, turn.rule = wait, set.number, j - 1
      end
    end
    return decider, refusals, remaining, reset, retry, kind, hits
  end

  -- Records what a take leaves on a rule that its walk reached, whatever the verdict:
  -- the ban that its refusal opens, or the weight of an overdraft.
  local function leave(r, c, refuses, now)
    if r.weight == 0 then return end
    local s = c.state or c.method.unused
    if refuses and r.ban and (r.outcome and 1 or r.weight) <= r.count then
      local banned = c.method.ban(s, r, now)
      if banned ~= s and c.resets then renumber(c, now) end
      c.state = banned
    elseif r.overdraft and not r.outcome then
      local after = c.method.add(s, r, now)
      if after ~= s then c.state = after end
      return after ~= s and s or nil
    end
  end

  -- Adds the parts of an allowed set to the parts of a receipt.
  local function join_set(parts, set, decider, refusals, counters, from, now)
    local skip = 1
    for j = 1, decider or #set do
      local r, admits = set[j], j ~= decider
      if refusals and refusals[skip] == j - 1 then admits, skip = false, skip + 1 end
      if j == decider then
        local s = counters[from + j].state -- a ban records no overdraft
        admits = r.overdraft and r.weight > 0 and not (r.outcome or s.banned or s.hits and s.hits > 9007199254740991)
      end
      if r.span and admits and (r.weight > 0 or not r.outcome and r.tag % 8 ~= HOLD) then join(parts, r, counters[from + j], now) end
    end
  end

  -- Decides and counts set i of a take. Appends to lasting what stays whatever the
  -- verdict of the others, and to parts what a receipt of the take concerns. Returns the
  -- answer, and whether the set is allowed.
  local function take_set(set, counters, from, now, complete, turn, lasting, undos, waits, parts)
    local decider, refusals, remaining, reset, retry, kind, hits = walk(set, counters, from, now, complete, turn)
    local allows, skip = set.allows, 1
    if decider then allows = not complete and set[decider].allows end
    for j = 1, decider or #set do
      local r, c, refuses = set[j], counters[from + j], j == decider
      if refusals and refusals[skip] == j - 1 then refuses, skip = true, skip + 1 end
      if r.overdraft or r.ban then
        local before = leave(r, c, refuses, now)
        if before and undos then note(undos, from + j, before, c, r, now, waits, 8) end
        lasting[#lasting + 1] = {r, c, refuses, from + j}
      end
    end
    if decider and (set[decider].overdraft or set[decider].ban) then
      local _, _, left, till, again, counted, daily = read(set[decider], counters[from + decider], now)
      remaining, reset, retry, kind, hits = left, till, again, daily, hits and counted
    end
    skip = 1
    for j = 1, allows and (decider and decider - 1 or #set) or 0 do
      local r, c = set[j], counters[from + j]
      if refusals and refusals[skip] == j - 1 then
        skip = skip + 1
      elseif r.weight > 0 and not (r.overdraft or r.outcome) then
        local s = c.state or c.method.unused
        local after = c.method.add(s, r, now)
        if after ~= s then
          c.state = after
          if undos then note(undos, from + j, s, c, r, now, waits, 0) end
        end
      end
    end
    if allows and parts then join_set(parts, set, decider, refusals, counters, from, now) end
    if decider then return answer(decider - 1, remaining, reset, kind, retry, refusals, hits), allows end
    return report(set, counters, from, now, refusals), allows
  end

  -- Restores the states before a take, but for what lasts.
  local function undo(counters, before, from, upto, lasting, now)
    for i = from + 1, upto do counters[i].state = before[i] or nil end
    for i = 1, #lasting do leave(lasting[i][1], lasting[i][2], lasting[i][3], now) end
  end

  -- Returns an answer to the set as a browse would give it after the undo. A rule
  -- that admitted in its turn admits again; what lasts shows in the figures.
  local function seen_again(set, counters, from, now, complete, turn)
    if set.refund then return report(set, counters, from, now) end
    local decider, refusals, remaining, reset, retry, kind, hits = walk(set, counters, from, now, complete, turn)
    if decider then return answer(decider - 1, remaining, reset, kind, retry, refusals, hits) end
    return report(set, counters, from, now, refusals)
  end

  take = function(shape, counters, from, upto, now, complete, answers, turn, undos, parts)
    local before, begin, n = {}, from, #answers
    for i = from + 1, upto do before[i] = counters[i].state or false end
    local allowed, lasting, refused = {}, {}, false
    for i = 1, #shape do
      local set = shape[i]
      if set.refund then
        refund(set, counters, from, now)
        answers[n + i], allowed[i] = report(set, counters, from, now), true
      else
        answers[n + i], allowed[i] = take_set(set, counters, from, now, complete, turn, lasting, undos, shape.waits or parts, parts)
      end
      refused = refused or not allowed[i]
      from = from + #set
    end
    if not refused then return true end
    if turn then turn.wait = 0 end
    if #shape == 1 then return false end
    undo(counters, before, begin, upto, lasting, now)
    local again = {wait = 0, admitted = {}}
    for i = 1, #lasting do
      if not lasting[i][3] then again.admitted[lasting[i][4]] = true end
    end
    from = begin
    for i = 1, #shape do
      local set = shape[i]
      if allowed[i] then answers[n + i] = seen_again(set, counters, from, now, complete, again) end
      from = from + #set
    end
    return false
  end

  -- As in carry.lua. The answers of a browse are those after a refusal by another
  -- slot: what lasts shows in their figures.
  take_part = function(shape, counters, from, upto, now, complete, answers, turn, parts)
    local before, after, begin, n = {}, {}, from, #answers
    for i = from + 1, upto do before[i] = counters[i].state or false end
    local undos, lasting, refused = {}, {}, false
    for i = 1, #shape do
      local set, allows = shape[i], nil
      answers[n + #shape + i], allows = take_set(set, counters, from, now, complete, turn, lasting, undos, shape.waits or parts, parts)
      refused = refused or not allows
      from = from + #set
    end
    for i = begin + 1, upto do after[i] = counters[i].state or false end
    undo(counters, before, begin, upto, lasting, now)
    local again = {wait = 0, admitted = {}}
    for i = 1, #lasting do
      if not lasting[i][3] then again.admitted[lasting[i][4]] = true end
    end
    from = begin
    for i = 1, #shape do
      answers[n + i] = seen_again(shape[i], counters, from, now, complete, again)
      from = from + #shape[i]
    end
    if refused then
      if turn then turn.wait = 0 end
      return
    end
    for i = begin + 1, upto do counters[i].state = after[i] or nil end
    return undos
  end
end

-- Returns the encoded undo records of the counters after from up to upto.
local function encode_undos(undos, from, upto)
  if not undos then return '\0' end
  local texts = {'\1'}
  for i = from + 1, upto do
    local u = undos[i]
    texts[#texts + 1] = u and struct.pack('>BI6I7I6', u[1], u[2], u[3], u[4]) or struct.pack('>BI6I7I6', 0, 0, 0, 0)
  end
  return table.concat(texts)
end
