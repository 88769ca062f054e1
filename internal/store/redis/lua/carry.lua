-- Carrying out ---------------------------------------------------------------

-- Gives back by undo records, in reverse order: the rule that opened a window
-- closes it.
local function give_back(counters, undos, from, upto, now)
  for i = upto, from + 1, -1 do
    local c, undo = counters[i], undos[i]
    if undo[1] > 0 and c.state then
      c.state = c.method.give_back(c.state, undo.rule, now, undo[1] % 4 >= 2, undo[1] % 8 >= 4, undo[2], undo[3], undo[4])
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
        for j = 1, #set do counters[from + j].state = nil end
      end
      text = report(set, counters, from, now, nil, operation == PEEK or operation == RESET)
    end
    answers[#answers + 1] = text
    from = from + #set
  end
  if turn and not (allowed and operation == BROWSE) then turn.wait = 0 end
end

local subjects, answers = {}, {struct.pack('>BI6', 1, now)}

local function decide_all()
  local counters, undos, n = {}, {}, 0
  for i = 1, plan[7] do
    local shape, from, turn = shapes[plan[at]], n, nil
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
    for s = 1, #shape do
      local set = shape[s]
      for j = 1, #set do
        local tag, k, log = set[j].tag, plan[at], nil
        at = at + 1
        if tag % 8 == LEAK then log, at = KEYS[plan[at]], at + 1 end
        local subject = subjects[k]
        if not subject then
          subject = parse(values[k], LAYOUT)
          subjects[k] = subject
        end
        n = n + 1
        if shape.operation == GIVE_BACK then
          undos[n] = {plan[at], plan[at + 1], plan[at + 2], plan[at + 3], rule = set[j]}
          at = at + 4
        end
        counters[n] = counter(subject, tag, methods, log, far)
      end
    end
    local operation = shape.operation
    if shape.wants_undo then
      local taken = take_part(shape, counters, from, n, now, operation == COMPLETE_TAKE, answers, turn)
      answers[#answers + 1] = (turn and longest(turn) or '') .. encode_undos(taken, from, n)
    elseif operation == TAKE or operation == COMPLETE_TAKE then
      local taken = turn and {}
      take(shape, counters, from, n, now, operation == COMPLETE_TAKE, answers, turn, taken)
      if turn then
        answers[#answers + 1] = longest(turn) .. (turn.wait > 0 and encode_undos(taken, from, n) or '')
      end
    else
      if operation == GIVE_BACK then give_back(counters, undos, from, n, now) end
      carry_out(shape, counters, from, now, answers, turn)
      if turn then answers[#answers + 1] = longest(turn) end
    end
  end
end

-- A fault in one request would fail all callers of the script call: the reply says
-- that nothing was written, and each request is sent again alone.
local fine, fault = pcall(decide_all)
if not fine then return struct.pack('>BI6', 2, now) .. tostring(fault) end
