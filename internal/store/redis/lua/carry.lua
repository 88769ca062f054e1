-- Carrying out ---------------------------------------------------------------

-- The same where other counters of the request are in other slots: the answers
-- of a look come first, and receipts last. No set of it gives back or denies of
-- itself, and no rule allows.
local function take_apart(shape, counters, from, upto, now, complete, answers)
  local before, begin, n = {}, from, #answers
  for i = from + 1, upto do before[i] = counters[i].state or false end
  for i = 1, #shape do
    answers[n + i] = decide(shape[i], counters, from, now, complete, false)
    from = from + #shape[i]
  end
  from, n = begin, n + #shape
  local receipts, refused = {'\1'}, false
  for i = 1, #shape do
    local set = shape[i]
    local decider, refusals, remaining, reset, retry, daily = walk(set, counters, from, now, complete)
    if decider then
      answers[n + i], refused = answer(decider - 1, remaining, reset, daily, retry, refusals), true
    else
      local skip = 1
      for j = 1, #set do
        local r, c = set[j], counters[from + j]
        if refusals and refusals[skip] == j - 1 then
          skip = skip + 1
          receipts[#receipts + 1] = struct.pack('>BI6I7I6', 0, 0, 0, 0)
        elseif r.weight == 0 then
          receipts[#receipts + 1] = struct.pack('>BI6I7I6', 0, 0, 0, 0)
        else
          local s = c.state or c.method.unused
          c.state = c.method.add(s, r, now)
          receipts[#receipts + 1] = struct.pack('>BI6I7I6', c.method.receipt(s, c.state, now))
        end
      end
      answers[n + i] = report(set, counters, from, now, refusals)
    end
    from = from + #set
  end
  if refused then
    for i = begin + 1, upto do counters[i].state = before[i] or nil end
    receipts = {'\0'}
  end
  answers[n + #shape + 1] = table.concat(receipts)
end

-- The last first: a window is closed by the rule that opened it.
local function give_back(counters, receipts, from, upto, now)
  for i = upto, from + 1, -1 do
    local c, back = counters[i], receipts[i]
    if back[1] > 0 and c.state then
      c.state = c.method.back(c.state, back.rule, now, back[1] % 4 >= 2, back[1] >= 4, back[2], back[3], back[4])
    end
  end
end

-- A request of any other operation: each set is for itself.
local function carry_out(shape, counters, from, now, answers)
  local operation = shape.operation
  for i = 1, #shape do
    local set, text = shape[i], nil
    if operation == BROWSE or operation == COMPLETE then
      text = decide(set, counters, from, now, operation == COMPLETE, false)
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
end

local subjects, answers = {}, {struct.pack('>BI6', 1, now)}

local function decide_all()
  local counters, receipts, n = {}, {}, 0
  for i = 1, plan[7] do
    local shape, from = shapes[plan[at]], n
    at = at + 1
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
          receipts[n] = {plan[at], plan[at + 1], plan[at + 2], plan[at + 3], rule = set[j]}
          at = at + 4
        end
        counters[n] = counter(subject, tag, methods, log, far)
      end
    end
    local operation = shape.operation
    if shape.receipts then
      take_apart(shape, counters, from, n, now, operation == COMPLETE_TAKE, answers)
    elseif operation == TAKE or operation == COMPLETE_TAKE then
      take(shape, counters, from, n, now, operation == COMPLETE_TAKE, answers)
    else
      if operation == GIVE_BACK then give_back(counters, receipts, from, n, now) end
      carry_out(shape, counters, from, now, answers)
    end
  end
end

-- A fault of one request's would be all callers': they are told that nothing
-- was written, and come again one by one.
local fine, fault = pcall(decide_all)
if not fine then return struct.pack('>BI6', 2, now) .. tostring(fault) end
