-- Receipts ---------------------------------------------------------------------
--
-- The value of a receipt: the layout, the instants of the take and of the receipt's end,
-- its parts, and the description that the take brought, which this script does not read:
--
--   02 | taken 6 | end 6 | number of parts 2 | parts of 28 | description
--   part: rule 2 | weight 7 | instant 6 | number 7 | resets 6
--
-- A part is the number of its rule in the description, from 1; its weight; an instant and a
-- number, which say where the weight was recorded; and how often the counter was reset:
--
--   method  instant                        number
--   count   end of the window, 0 if none was open
--   leak    of the run, 0 if there is none
--   token   of the bucket's use            missing after the set's take
--   hold    when the run runs out
--
-- A counter that is reset or banned while receipts may concern it, a bucket that is reset,
-- and a counter whose next window ends with the same unit remember the instant until what
-- was counted before would have ended. That entry has the tag return × 8 + 6.

local RESETS = 6
local reset_of, renumber, join, receipt_of, settle, renew

-- Reports whether undo records of a rule name the last reset of its counter.
local function names_reset(c, r)
  local method = r.tag % 8
  return c.resets and (method == TOKEN or method == COUNT)
end

if used.receipts or used.resets then
  methods[RESETS] = {
    decode = function(body, till)
      if #body == 6 then return {at = struct.unpack('>I6', body), till = till} end
    end,
    encode = function(s, tag) return struct.pack('>I5I6I2I6', tag, s.till, 6, s.at), s.till end,
  }

  -- Returns the instant at which a counter was reset, 0 if it was not.
  reset_of = function(c, now)
    local s = c.resets[4]
    return s and now < s.till and s.at or 0
  end

  -- Remembers that a counter is reset, or banned, if anything is counted.
  renumber = function(c, now)
    local s, before = state_of(c), c.resets and c.resets[4]
    local till = s and (s.closes or s.gone or s.full or s.newest) or 0
    if not c.resets or till <= now then return end
    till = math.min(math.max(till, before and before.till or 0), now + 63158400000) -- a day before far
    c.resets[4] = {at = math.max(now, before and before.at + 1 or 0), till = till}
  end

  -- Adds the weight of a rule to its counter's part of a receipt.
  join = function(parts, r, c, now)
    local p = parts[c]
    if not p then
      p = {rule = r, counter = c, weight = 0, at = 0, number = 0, resets = reset_of(c, now), span = 0}
      parts[c], parts[#parts + 1] = p, p
    end
    p.weight, p.span = math.min(p.weight + r.weight, 9007199254740991), math.max(p.span, r.span)
    local method = r.tag % 8
    if not r.outcome and (r.weight > 0 or method == COUNT or method == TOKEN) then
      p.at, p.number = r.method.mark(state_of(c) or r.method.unused, r, now)
    end
  end

  -- Returns the value of a receipt, and its end.
  receipt_of = function(parts, now, description)
    local texts, span = {}, 0
    for i = 1, #parts do
      local p = parts[i]
      span = math.max(span, p.span)
      texts[i] = struct.pack('>I2I7I6I7I6', p.rule.part, p.weight, p.at, p.number, p.resets)
    end
    return struct.pack('>BI6I6I2', LAYOUT, now, now + span, #parts) .. table.concat(texts) .. description, now + span
  end

  -- Applies to a counter what became of the rule's part that begins at from: what is 1 if
  -- hits replace the estimate, 2 if a hold ends, 3 if the weight is recorded.
  local function apply(value, from, what, hits, r, c, now)
    local weight, at, number, resets = struct.unpack('>I7I6I7I6', value, from + 2)
    local before, method = state_of(c), r.method
    local s = before or method.unused
    local late = what == 1 and at == 0 and r.tag % 8 ~= TOKEN
    local after = s
    if what == 3 or late then
      r.weight = what == 3 and weight or hits
      if r.weight > 0 then after = method.add(s, r, now) end
    elseif reset_of(c, now) <= resets or r.tag % 8 == TOKEN and hits > weight then -- a bucket owes what was used beyond
      r.weight = weight
      if what == 1 then after = method.settle(s, r, now, hits, at, number)
      elseif before then after = method.give_back(s, r, now, nil, nil, at) end
    end
    if after ~= s then set_state(c, after) end
  end

  -- Settles a receipt, whose value is given. Reports whether it was valid.
  settle = function(rules, counters, plan, uses, now, value)
    local till, parts = parts_of(value, now)
    if not till then return false end
    for i = 1, #rules do
      local at = uses[i]
      local part = parts[plan[at]]
      if part then apply(value, part, plan[at + 1], plan[at + 2], rules[i], counters[i], now) end
    end
    return true
  end

  -- Renews the holds of a receipt. Returns its value and its end, nil if it is not valid.
  renew = function(rules, counters, plan, uses, now, value)
    local till, parts = parts_of(value, now)
    if not till then return nil end
    for i = 1, #rules do
      local r, c, first = rules[i], counters[i], parts[plan[uses[i]]]
      local s = first and state_of(c)
      if s then
        local weight, at, _, resets = struct.unpack('>I7I6I7I6', value, first + 2)
        r.weight = weight
        local after, renewed = s, 0
        if reset_of(c, now) <= resets then after, renewed = r.method.renew(s, r, now, at) end
        if renewed > at then
          set_state(c, after)
          till = math.max(till, renewed)
          value = string.sub(value, 1, first + 8) .. struct.pack('>I6', renewed) .. string.sub(value, first + 15)
        end
      end
    end
    return string.sub(value, 1, 7) .. struct.pack('>I6', till) .. string.sub(value, 14), till
  end
end
