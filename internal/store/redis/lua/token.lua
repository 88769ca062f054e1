-- token: the level of the bucket in token·ms, and the instant at which it was
-- computed; the rule's burst and time then; the instant from which the bucket is full.
-- A full bucket has burst × time, and no level is more than 2^53 (9007199254740992)
-- below that.
if used[TOKEN] then
  -- Returns a / b rounded up. It is exact to 2^53, because a / b, rounded to a double,
  -- then reaches no integer that it does not equal.
  local function div_up(a, b)
    local rest = a % b
    return rest > 0 and (a - rest) / b + 1 or a / b
  end

  -- Returns a / b rounded down, exact to 2^53; a may be negative.
  local function div_down(a, b)
    return (a - a % b) / b
  end

  -- Returns a level in units of the rule's time. Whole tokens stay; a token that is
  -- partly refilled counts as missing.
  local function convert(s, r)
    local tokens = math.min(div_down(s.level, s.time), r.size)
    if r.size - tokens > div_down(9007199254740992, r.time) then return r.size * r.time - 9007199254740992 end
    return tokens * r.time
  end

  -- Returns the level now, and the level of a full bucket.
  local function level_at(s, r, now)
    local size, count, level = r.size * r.time, r.count, s.level
    if now >= s.full then return size, size end
    if s.time ~= r.time then level = convert(s, r) end
    if level > size then level = size elseif level < size - 9007199254740992 then level = size - 9007199254740992 end
    local elapsed = now - s.at
    if elapsed <= 0 then return level, size end
    -- Compare before multiplying: count × elapsed may exceed 2^53.
    if elapsed >= (size - level) / count then return size, size end
    return level + count * elapsed, size
  end

  -- Returns the state with a level now.
  local function state(s, r, now, level, size)
    local at = s.at
    if now > at then at = now end
    return {level = level, at = at, time = r.time, burst = r.size, full = at + div_up(size - level, r.count)}
  end

  methods[TOKEN] = {
    unused = {level = 0, at = 0, time = 0, full = 0},

    read = function(s, r, now)
      local burst, weight = r.size, r.need
      local level, size = level_at(s, r, now)
      local tokens, left, retry, wait = div_down(level, r.time), 0, -1, nil
      if tokens > 0 then left = tokens end
      local admits = weight <= tokens
      if not admits and weight <= burst then
        retry = div_up(weight * r.time - level, r.count)
        if r.most and retry <= r.most then admits, wait = true, retry end
      end
      return admits, burst, left, div_up(size - level, r.count), retry, burst - tokens, nil, wait
    end,

    add = function(s, r, now)
      local level, size = level_at(s, r, now)
      local least = level < 0 and level or 0 -- an empty bucket gets no emptier
      if r.deep then least = size - 9007199254740992 end
      if r.weight > div_down(level - least, r.time) then
        return state(s, r, now, least, size)
      end
      return state(s, r, now, level - r.weight * r.time, size)
    end,

    -- The body: what is missing in the bucket, the amount below empty, the instant of
    -- both, the time and the burst. Amounts are in token·ms.
    decode = function(body, till, _, far)
      if #body ~= 32 then return nil end
      local missing, below, at, time, burst = struct.unpack('>I7I7I6I5I7', body)
      local size = burst * time
      if time == 0 or at >= far or size > 9007199254740992 or below > 9007199254740992 then return nil end
      if missing > size or below > 0 and missing < size then return nil end
      return {level = size - missing - below, at = at, time = time, full = till, burst = burst}
    end,

    encode = function(s, tag)
      local size, full = s.burst * s.time, s.full
      if full > 140737488355328 then full = 140737488355328 end -- 2^47, the year 6429: instants have six bytes
      local missing, below = size - s.level, 0
      if s.level < 0 then missing, below = size, -s.level end
      return struct.pack('>I5I6I2I7I7I6I5I7', tag, full, 32, missing, below, s.at, s.time, s.burst), full
    end,
  }

  if rare then
    local token = methods[TOKEN]

    token.refund = function(s, r, now)
      local level, size = level_at(s, r, now)
      if level == size then return s end
      if r.weight > div_down(size - level, r.time) then return state(s, r, now, size, size) end
      return state(s, r, now, level + r.weight * r.time, size)
    end

    -- Returns the state of a bucket that is filled to burst less held at most.
    token.bound = function(s, r, now, held)
      local level, size = level_at(s, r, now)
      local most = math.max(size - held * r.time, 0)
      return level > most and state(s, r, now, most, size) or s
    end

    -- Returns the state with more in the bucket.
    token.shift = function(s, r, now, more)
      local level, size = level_at(s, r, now)
      return state(s, r, now, level + more, size)
    end

    -- Returns the state of a bucket that lacks so much of its size at least.
    token.lack = function(s, r, now, missing)
      local level, size = level_at(s, r, now)
      return state(s, r, now, math.min(level, size - missing), size)
    end

    token.level = level_at

    token.undo_record = function(before, s, now, r)
      local level, size = level_at(before, r, now)
      return 1, s.at, size - level, 0
    end

    -- Without the take, the bucket would have been fuller, and might have lost a part of
    -- the refill since. So a take gives back its tokens less that refill:
    --   given back = tokens - count * elapsed
    -- A take that waited, or that has a receipt, knows that the bucket was not full: it
    -- gives back what would not have overflowed if no other call had used the bucket:
    --   given back = tokens + missing - count * elapsed, at most tokens
    -- missing is what the bucket lacked before the take.
    token.give_back = function(s, r, now, waited, _, at, missing)
      local level, size = level_at(s, r, now)
      if level == size then return s end
      local tokens, elapsed = 9007199254740992 - missing, math.max(now - at, 0)
      if r.weight <= div_down(tokens, r.time) then tokens = r.weight * r.time end
      if not waited then missing = 0 end
      if tokens <= 0 or elapsed >= div_up(tokens + missing, r.count) then return s end
      local back = math.min(tokens, tokens + missing - r.count * elapsed)
      return state(s, r, now, back < size - level and level + back or size, size)
    end

    token.mark = function(s, r, now)
      local level, size = level_at(s, r, now)
      return math.max(s.at, now), size - level
    end

    -- What would have overflowed if nobody else had used the bucket since is not given
    -- back: after the take, missing was missing.
    token.settle = function(s, r, now, hits, at, missing)
      local level, size = level_at(s, r, now)
      if hits > r.weight then
        local least, more = size - 9007199254740992, hits - r.weight
        if more > div_down(level - least, r.time) then return state(s, r, now, least, size) end
        return state(s, r, now, level - more * r.time, size)
      end
      local most, elapsed = div_down(9007199254740992, r.time), math.max(now - at, 0)
      local back = math.min(r.weight - hits, most) * r.time
      if level == size or back == 0 or elapsed >= div_up(missing, r.count) then return s end
      back = math.min(back, missing - r.count * elapsed)
      return state(s, r, now, back < size - level and level + back or size, size)
    end
  end
end
