-- Deciding --------------------------------------------------------------------

-- The functions below receive the counters of a request; those of a set begin at from + 1.

-- Returns the answer to a rule's weight, as the method's read does.
local function read(r, c, now)
  if not r.counts then return r.method.read(c[4] or r.method.unused, r, now) end
  if not r.lease then return read_window(c[4], c[2], r, now) end
  return r.method.read({hits = c[4], closes = c[2]}, r, now)
end

-- Reads the set's rules in order: up to the one that decides, or all for a complete
-- answer. Returns the position of the rule that decides, the indices of the rules that
-- refuse without deciding (for a complete answer, of all rules that refuse), and the
-- numbers of the rule that decides; with an overdraft also its hits. turn has the
-- longest wait so far and, while sets are answered again after another was refused, the
-- rules that admitted in their turn.
local function walk(set, counters, from, now, complete, turn)
  local decider, refusals, remaining, reset, retry, kind, hits
  for j = 1, #set do
    local r, c = set[j], counters[from + j]
    if not (r.counts and r.need <= r.count - (now < c[2] and c[4] or 0)) then -- no sum, which might exceed 2^53
      local admits, _, left, till, again, counted, daily, wait = read(r, c, now)
      if not admits and turn and turn.admitted then admits = turn.admitted[from + j] end
      if not admits then
        local passes = r.shadow or r.marked
        if complete or passes then
          refusals = refusals or {}
          refusals[#refusals + 1] = j - 1
        end
        if not (passes or decider) then
          decider, remaining, reset, retry, kind, hits = j, left, till, again, daily, r.overdraft and counted
          if not complete then break end
        end
      elseif wait and turn and wait > turn.wait and not r.shadow then
        turn.wait, turn.set, turn.rule = wait, set.number, j - 1
      end
    end
  end
  return decider, refusals, remaining, reset, retry, kind, hits
end

-- Returns the answer if no rule decided: the numbers of the rule with the least
-- remaining.
local function report(set, counters, from, now, refusals, single)
  local reporter, remaining, reset, kind, hits = -1, 0, 0, nil, single and 0 or nil
  for j = 1, #set do
    local r, c = set[j], counters[from + j]
    if single or not r.shadow then
      local _, _, left, till, _, counted, daily = read(r, c, now)
      if reporter < 0 or left < remaining then
        reporter, remaining, reset, kind = j - 1, left, till, daily
        if single then hits = counted end
      end
    end
  end
  return answer(reporter, remaining, reset, kind, nil, refusals, hits)
end

-- Returns the answer to a set as a browse gives it, and whether the set is allowed.
local function browse(set, counters, from, now, complete, turn)
  local decider, refusals, remaining, reset, retry, kind, hits = walk(set, counters, from, now, complete, turn)
  if not decider then return report(set, counters, from, now, refusals), set.allows end
  return answer(decider - 1, remaining, reset, kind, retry, refusals, hits), not complete and set[decider].allows
end

-- Counts the weight of a rule. Reports whether that changed its counter.
local function count(r, c, now)
  local method, till, hits = r.method, c[2], c[4]
  if r.counts then
    if hits > 9007199254740991 and now < till then return false end -- banned
    hits, till = with_hits(hits, till, r.weight, now, r.closes)
    c[2], c[3], c[4] = till, 2, hits
    return true
  end
  local s = hits or method.unused
  local after = method.add(s, r, now)
  c[4] = after
  return after ~= s
end

-- Gives back the weights of the set.
local function refund(set, counters, from, now)
  for j = 1, #set do
    local r, c = set[j], counters[from + j]
    local s = r.weight > 0 and state_of(c)
    if s then set_state(c, r.method.refund(s, r, now)) end
  end
end
