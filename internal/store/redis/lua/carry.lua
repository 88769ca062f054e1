-- Carrying out ---------------------------------------------------------------

-- Carries out the part of a take whose other counters are in other slots: a take
-- that wants undo records. Appends the answers of a browse, the answers, and the
-- undo records. Its sets neither refund nor deny by default, and none of its rules
-- allows.
local function take_part(shape, counters, from, upto, now, complete, answers)
  local before, begin, n = {}, from, #answers
  for i = from + 1, upto do before[i] = counters[i].state or false end
  for i = 1, #shape do
    answers[n + i] = decide(shape[i], counters, from, now, complete, false)
    from = from + #shape[i]
  end
  from, n = begin, n + #shape
  local undos, refused = {'\1'}, false
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
          undos[#undos + 1] = struct.pack('>BI6I7I6', 0, 0, 0, 0)
        elseif r.weight == 0 then
          undos[#undos + 1] = struct.pack('>BI6I7I6', 0, 0, 0, 0)
        else
          local s = c.state or c.method.unused
          c.state = c.method.add(s, r, now)
          undos[#undos + 1] = struct.pack('>BI6I7I6', c.method.undo_record(s, c.state, now))
        end
      end
      answers[n + i] = report(set, counters, from, now, refusals)
    end
    from = from + #set
  end
  if refused then
    for i = begin + 1, upto do counters[i].state = before[i] or nil end
    undos = {'\0'}
  end
  answers[n + #shape + 1] = table.concat(undos)
end

-- Gives back by undo records, in reverse order: the rule that opened a window
-- closes it.
local function give_back(counters, undos, from, upto, now)
  for i = upto, from + 1, -1 do
    local c, undo = counters[i], undos[i]
    if undo[1] > 0 and c.state then
      c.state = c.method.give_back(c.state, undo.rule, now, undo[1] % 4 >= 2, undo[1] >= 4, undo[2], undo[3], undo[4])
    end
  end
end

-- Carries out a request of any other operation: each set is independent.
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
  local counters, undos, n = {}, {}, 0
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
          undos[n] = {plan[at], plan[at + 1], plan[at + 2], plan[at + 3], rule = set[j]}
          at = at + 4
        end
        counters[n] = counter(subject, tag, methods, log, far)
      end
    end
    local operation = shape.operation
    if shape.wants_undo then
      take_part(shape, counters, from, n, now, operation == COMPLETE_TAKE, answers)
    elseif operation == TAKE or operation == COMPLETE_TAKE then
      take(shape, counters, from, n, now, operation == COMPLETE_TAKE, answers)
    else
      if operation == GIVE_BACK then give_back(counters, undos, from, n, now) end
      carry_out(shape, counters, from, now, answers)
    end
  end
end

-- A fault in one request would fail all callers of the script call: the reply says
-- that nothing was written, and each request is sent again alone.
local fine, fault = pcall(decide_all)
if not fine then return struct.pack('>BI6', 2, now) .. tostring(fault) end
