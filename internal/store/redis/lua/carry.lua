-- Carrying out ---------------------------------------------------------------

-- Gives back by undo records, in reverse order: the rule that opened a window
-- closes it. A bucket that was reset since the take gets nothing back, and neither does a
-- window, which another one of the same calendar unit may have followed.
local function give_back(counters, undos, from, upto, now)
  for i = upto, from + 1, -1 do
    local c, undo = counters[i], undos[i]
    local reset = names_reset(c, undo.rule) and reset_of(c, now) > undo[4]
    if undo[1] > 0 and c.state and not reset then
      local before = c.state
      c.state = c.method.give_back(before, undo.rule, now, undo[1] % 4 >= 2, undo[1] % 8 >= 4, undo[2], undo[3], undo[4])
      if c.resets and not c.state then
        c.state = before
        renumber(c, now)
        c.state = nil
      end
    end
  end
end

-- Returns the encoded longest wait of a request.
local function longest(turn)
  if turn.wait == 0 then return '\0\0\0\0' end
  return struct.pack('>I4I2I2', turn.wait, turn.set, turn.rule)
end

-- Carries out a request of any other operation: each set is independent.
local function carry_out(shape, counters, from, now, answers, turn)
  local operation, allowed = shape.operation, true
  for i = 1, #shape do
    local set, text, allows = shape[i], nil, nil
    if operation == BROWSE or operation == COMPLETE then
      text, allows = decide(set, counters, from, now, operation == COMPLETE, false, turn)
      allowed = allowed and (allows or set.refund)
    else
      if operation == UPDATE then add(set, #set, nil, counters, from, now)
      elseif operation == REFUND then refund(set, counters, from, now)
      elseif operation == RESET then
        for j = 1, #set do
          local c = counters[from + j]
          if c.resets then renumber(c, now) end
          c.state = set[j].lease and reset_leased(c, set[j], now) or nil
        end
      end
      text = report(set, counters, from, now, nil, operation == PEEK or operation == RESET)
    end
    answers[#answers + 1] = text
    from = from + #set
  end
  if turn and not (allowed and operation == BROWSE) then turn.wait = 0 end
end

local subjects, answers = {}, {struct.pack('>BI6', 1, now)}
local receipts = {} -- by key: value and end of what is made or renewed, false for what is spent

-- Makes the receipt of a take, if there are parts. Returns the end of the reply; undos is
-- nil if the undo records precede it.
local function make_receipt(parts, key, description, undos, from, upto)
  if not parts[1] then return '\0' end
  local value, till = receipt_of(parts, now, description)
  receipts[key] = {value, till}
  return undos and '\1' .. encode_undos(undos, from, upto) or '\1'
end

-- Carries out an operation on the receipt with the number k in KEYS. Returns the reply.
local function with_receipt(operation, k, counters, uses, from, upto)
  local value = values[k]
  if operation == READ then
    if not value or #value > MAX_RECEIPT then value = '' end
    return struct.pack('>I4', #value) .. value
  end
  if operation == SETTLE then
    if not settle(counters, uses, from, upto, now, value) then return '\0' end
    values[k], receipts[KEYS[k]] = false, false
    return '\1'
  end
  local renewed, till = renew(counters, uses, from, upto, now, value)
  if not renewed then return '\0' end
  values[k], receipts[KEYS[k]] = renewed, {renewed, till}
  return '\1'
end

local function decide_all()
  local counters, undos, n = {}, {}, 0
  for i = 1, plan[7] do
    local shape, from, turn, key, description = shapes[plan[at]], n, nil, nil, nil
    local operation = shape.operation
    at = at + 1
    if shape.waits then
      turn = {wait = 0}
      for s = 1, #shape do
        for j = 1, #shape[s] do
          local r = shape[s][j]
          if r.wait then r.most = math.min(r.wait, plan[at]) end
        end
      end
      at = at + 1
    end
    if shape.receipt then
      key, at = plan[at], at + 1
      if operation == TAKE or operation == COMPLETE_TAKE then description, at = ARGV[plan[at]], at + 1 end
    end
    for s = 1, #shape do
      local set = shape[s]
      for j = 1, #set do
        local tag, k, log = set[j].tag, plan[at], nil
        at = at + 1
        if tag % 8 == LEAK or tag % 8 == HOLD then log, at = KEYS[plan[at]], at + 1 end
        local subject = subjects[k]
        if not subject then
          subject = parse(values[k], LAYOUT)
          subjects[k] = subject
        end
        n = n + 1
        if operation == GIVE_BACK then
          undos[n] = {plan[at], plan[at + 1], plan[at + 2], plan[at + 3], rule = set[j]}
          at = at + 4
        elseif operation == SETTLE then
          undos[n] = {plan[at], plan[at + 1], plan[at + 2], rule = set[j]}
          at = at + 3
        elseif operation == RENEW then
          undos[n] = {plan[at], rule = set[j]}
          at = at + 1
        elseif operation == LEASE then
          undos[n], at = at, at + 7
        end
        local c = counter(subject, tag, methods, log, far)
        if set[j].share then set[j].lease, set[j].early = counter(subject, tag - tag % 8, methods, nil, far), nil end
        if (set[j].span or set[j].aligned) and not c.resets then
          c.resets = counter(subject, tag - tag % 8 + RESETS, methods, nil, far)
        end
        counters[n] = c
      end
    end
    local parts = description and {}
    if shape.wants_undo then
      local taken = take_part(shape, counters, from, n, now, operation == COMPLETE_TAKE, answers, turn, parts)
      answers[#answers + 1] = (turn and longest(turn) or '') .. encode_undos(taken, from, n)
      if parts then answers[#answers + 1] = make_receipt(taken and parts or {}, KEYS[key], description) end
    elseif operation == TAKE or operation == COMPLETE_TAKE then
      local taken = (turn or parts) and {}
      local allowed = take(shape, counters, from, n, now, operation == COMPLETE_TAKE, answers, turn, taken, parts)
      local waits = turn and turn.wait > 0
      if turn then
        answers[#answers + 1] = longest(turn) .. (waits and encode_undos(taken, from, n) or '')
      end
      if parts then
        answers[#answers + 1] = make_receipt(allowed and parts or {}, KEYS[key], description, not waits and taken, from, n)
      end
    elseif operation == LEASE then
      answers[#answers + 1] = lease(counters[n], shape[1][1], now, plan, undos[n])
    elseif operation >= SETTLE then
      answers[#answers + 1] = with_receipt(operation, key, counters, undos, from, n)
    else
      if operation == GIVE_BACK and (not key or parts_of(values[key], 0)) then -- an expired one, too
        give_back(counters, undos, from, n, now)
        if key then values[key], receipts[KEYS[key]] = false, false end
      end
      carry_out(shape, counters, from, now, answers, turn)
      if turn then answers[#answers + 1] = longest(turn) end
    end
  end
end

-- A fault in one request would fail all callers of the script call: the reply says
-- that nothing was written, and each request is sent again alone.
local fine, fault = pcall(decide_all)
if not fine then return struct.pack('>BI6', 2, now) .. tostring(fault) end
