-- Carrying out other requests ---------------------------------------------------

local counters, uses = {}, {} -- of the request that is carried out; uses are positions in plan

-- Finds the counters of a shape's rules, whose keys begin at at, and what few rules need
-- beside them. Returns the position of the next request.
local function look_up(shape, at)
  local rules, more, width, plan = shape.rules, shape.more, shape.width or 0, plan
  for j = 1, #rules do
    local r, k, log = rules[j], plan[at], nil
    local tag = r.tag
    if not r.method then r.method = methods[tag % 8] end
    at = at + 1
    if more and r.logs then log, at = KEYS[plan[at]], at + 1 end
    local c = subjects[k]
    if not c or c[1] ~= tag then c = find(k, tag, log) end
    counters[j] = c
    if more then
      uses[j], at = at, at + width
      if r.beside then
        if r.share then
          r.lease, r.early = find(k, tag - tag % 8), nil
          r.shares = shares_at(k, tag - tag % 8 + SHARES, shape.operation == ASSIGN)
        end
        if (r.span or r.resets) and not c.resets then c.resets = find(k, tag - tag % 8 + RESETS) end
      end
    end
  end
  return at
end

-- Returns the encoded longest wait of a request.
local function longest(turn)
  if turn.wait == 0 then return '\0\0\0\0' end
  return struct.pack('>I4I2I2', turn.wait, turn.set, turn.rule)
end

-- Gives the turn of a request whose caller waits for patience at most.
local function turn_of(rules, patience)
  for j = 1, #rules do
    local r = rules[j]
    if r.wait then r.most = math.min(r.wait, patience) end
  end
  return {wait = 0}
end

-- Carries out a take. As all functions below, it returns the position of the next request.
local function carry_take(shape, at)
  local n, complete, split, turn, key, description = #shape.rules, shape.operation == COMPLETE_TAKE, shape.wants_undo, nil, nil, nil
  if shape.waits then turn, at = turn_of(shape.rules, plan[at]), at + 1 end
  if shape.receipt then key, description, at = KEYS[plan[at]], ARGV[plan[at + 1]], at + 2 end
  at = look_up(shape, at)
  local parts, taken = key and {}, (split or turn or key) and {}
  local allowed = take(shape, counters, n, now, complete, answers, turn, taken, parts, split)
  if not taken then return at end
  local text = turn and longest(turn) or ''
  if split then
    text = text .. encode_undos(allowed and taken, n)
  elseif turn and turn.wait > 0 then
    text, split = text .. encode_undos(taken, n), true
  end
  if key and allowed and parts[1] then
    local value, till = receipt_of(parts, now, description)
    receipts[#receipts + 1] = {key, value, till}
    text = text .. '\1' .. (split and '' or encode_undos(taken, n))
  elseif key then
    text = text .. '\0'
  end
  answers[#answers + 1] = text
  return at
end

if not used.others then
  carry_out = carry_take
else
  -- Gives back by undo records, in reverse order: the rule that opened a window closes it.
  -- A bucket that was reset since the take gets nothing back, and neither does a window,
  -- which another one of the same calendar unit may have followed.
  local function give_back(rules)
    for i = #rules, 1, -1 do
      local c, r, flags, a, b, d = counters[i], rules[i], unpack(plan, uses[i], uses[i] + 3)
      local before = state_of(c)
      if flags > 0 and before and not (names_reset(c, r) and reset_of(c, now) > d) then
        local after = r.method.give_back(before, r, now, flags % 4 >= 2, flags % 8 >= 4, a, b, d)
        if c.resets and not after then renumber(c, now) end
        set_state(c, after)
      end
    end
  end

  -- Carries out a request of which each set is independent.
  local function carry_sets(shape, turn)
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

  -- Carries out an operation on the receipt with the number k in KEYS. Returns the reply.
  local function with_receipt(operation, k, rules)
    local value = values[k]
    if operation == READ then
      if not value or #value > MAX_RECEIPT then value = '' end
      return struct.pack('>I4', #value) .. value
    end
    if operation == SETTLE then
      if not settle(rules, counters, plan, uses, now, value) then return '\0' end
      values[k], receipts[#receipts + 1] = false, {KEYS[k]}
      return '\1'
    end
    local renewed, till = renew(rules, counters, plan, uses, now, value)
    if not renewed then return '\0' end
    values[k], receipts[#receipts + 1] = renewed, {KEYS[k], renewed, till}
    return '\1'
  end

  carry_out = function(shape, at)
    local operation, rules, turn, key = shape.operation, shape.rules, nil, nil
    if operation == TAKE or operation == COMPLETE_TAKE then return carry_take(shape, at) end
    if shape.waits then turn, at = turn_of(rules, plan[at]), at + 1 end
    if shape.receipt then key, at = plan[at], at + 1 end
    at = look_up(shape, at)
    if operation == LEASE then
      answers[#answers + 1] = lease(counters[1], rules[1], now, plan, uses[1])
    elseif operation == ASSIGN then
      answers[#answers + 1] = assign(rules, counters, now, plan, uses)
    elseif operation >= SETTLE then
      answers[#answers + 1] = with_receipt(operation, key, rules)
    else
      if operation == GIVE_BACK and (not key or parts_of(values[key], 0)) then -- an expired one, too
        give_back(rules)
        if key then values[key], receipts[#receipts + 1] = false, {KEYS[key]} end
      end
      carry_sets(shape, turn)
      if turn then answers[#answers + 1] = longest(turn) end
    end
    return at
  end
end
