-- Other requests -------------------------------------------------------------

-- Gives back by the undo records of n counters, in reverse order: the rule that opened a
-- window closes it. A bucket that was reset since the take gets nothing back, and neither
-- does a window, which another one of the same calendar unit may have followed.
local function give_back(counters, undos, n, now)
  for i = n, 1, -1 do
    local c, used_up, r = counters[i], undos[i], undos[i].rule
    local reset = names_reset(c, r) and reset_of(c, now) > used_up[4]
    local before = state_of(c)
    if used_up[1] > 0 and before and not reset then
      local after = r.method.give_back(before, r, now, used_up[1] % 4 >= 2, used_up[1] % 8 >= 4, used_up[2], used_up[3], used_up[4])
      if c.resets and not after then renumber(c, now) end
      set_state(c, after)
    end
  end
end

-- Returns the encoded longest wait of a request.
local function longest(turn)
  if turn.wait == 0 then return '\0\0\0\0' end
  return struct.pack('>I4I2I2', turn.wait, turn.set, turn.rule)
end

-- Carries out a request of which each set is independent.
local function carry_sets(shape, counters, now, answers, turn)
  local operation, allowed, from = shape.operation, true, 0
  for i = 1, #shape do
    local set, text, allows = shape[i], nil, nil
    if operation == BROWSE or operation == COMPLETE then
      text, allows = browse(set, counters, from, now, operation == COMPLETE, turn)
      allowed = allowed and (allows or set.refund)
    else
      if operation == REFUND then refund(set, counters, from, now) end
      for j = 1, #set do
        local r, c = set[j], counters[from + j]
        if operation == UPDATE and r.weight > 0 then
          count(r, c, now)
        elseif operation == RESET then
          if c.resets then renumber(c, now) end
          set_state(c, r.lease and reset_leased(c, r, now) or nil)
        end
      end
      text = report(set, counters, from, now, nil, operation == PEEK or operation == RESET)
    end
    answers[#answers + 1] = text
    from = from + #set
  end
  if turn and not (allowed and operation == BROWSE) then turn.wait = 0 end
end

-- Makes the receipt of a take, if there are parts. Returns the end of the reply; undos is
-- nil if the undo records precede it.
local function make_receipt(parts, key, description, undos, n)
  if not parts[1] then return '\0' end
  local value, till = receipt_of(parts, now, description)
  receipts[key] = {value, till}
  return undos and '\1' .. encode_undos(undos, n) or '\1'
end

-- Carries out an operation on the receipt with the number k in KEYS. Returns the reply.
local function with_receipt(operation, k, counters, uses, n)
  local value = values[k]
  if operation == READ then
    if not value or #value > MAX_RECEIPT then value = '' end
    return struct.pack('>I4', #value) .. value
  end
  if operation == SETTLE then
    if not settle(counters, uses, n, now, value) then return '\0' end
    values[k], receipts[KEYS[k]] = false, false
    return '\1'
  end
  local renewed, till = renew(counters, uses, n, now, value)
  if not renewed then return '\0' end
  values[k], receipts[KEYS[k]] = renewed, {renewed, till}
  return '\1'
end

-- Finds the counters of a request, whose numbers begin at at, and carries it out. Returns
-- the position of the next request.
carry_out = function(shape, at)
  local operation, counters, undos, n, turn, key, description = shape.operation, {}, {}, 0, nil, nil, nil
  if shape.waits then
    turn = {wait = 0}
    for j = 1, #shape.rules do
      local r = shape.rules[j]
      if r.wait then r.most = math.min(r.wait, plan[at]) end
    end
    at = at + 1
  end
  local takes = operation == TAKE or operation == COMPLETE_TAKE
  if shape.receipt then
    key, at = plan[at], at + 1
    if takes then description, at = ARGV[plan[at]], at + 1 end
  end
  for j = 1, #shape.rules do
    local r, k, log = shape.rules[j], plan[at], nil
    local method = r.tag % 8
    at = at + 1
    if method == LEAK or method == HOLD then log, at = KEYS[plan[at]], at + 1 end
    r.method = methods[method]
    if operation == GIVE_BACK then
      undos[j] = {plan[at], plan[at + 1], plan[at + 2], plan[at + 3], rule = r}
      at = at + 4
    elseif operation == SETTLE then
      undos[j] = {plan[at], plan[at + 1], plan[at + 2], rule = r}
      at = at + 3
    elseif operation == RENEW then
      undos[j] = {plan[at], rule = r}
      at = at + 1
    elseif operation == LEASE then
      undos[j], at = at, at + 7
    end
    local c = find(k, r.tag, log)
    if r.share then r.lease, r.early = find(k, r.tag - method), nil end
    if (r.span or r.aligned) and not c.resets then c.resets = find(k, r.tag - method + RESETS) end
    counters[j], n = c, j
  end
  local parts = description and {}
  if takes then
    local split = shape.wants_undo
    local taken = (split or turn or parts) and {}
    local allowed = take(shape, counters, n, now, operation == COMPLETE_TAKE, answers, turn, taken, parts, split)
    local ends = turn and longest(turn) or ''
    if split then ends = ends .. encode_undos(allowed and taken, n)
    elseif turn and turn.wait > 0 then ends, split = ends .. encode_undos(taken, n), true end
    if parts then ends = ends .. make_receipt(allowed and parts or {}, KEYS[key], description, not split and taken, n) end
    if ends ~= '' then answers[#answers + 1] = ends end
  elseif operation == LEASE then
    answers[#answers + 1] = lease(counters[1], shape.rules[1], now, plan, undos[1])
  elseif operation >= SETTLE then
    answers[#answers + 1] = with_receipt(operation, key, counters, undos, n)
  else
    if operation == GIVE_BACK and (not key or parts_of(values[key], 0)) then -- an expired one, too
      give_back(counters, undos, n, now)
      if key then values[key], receipts[KEYS[key]] = false, false end
    end
    carry_sets(shape, counters, now, answers, turn)
    if turn then answers[#answers + 1] = longest(turn) end
  end
  return at
end
