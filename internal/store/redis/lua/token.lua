-- token: the amount missing in the bucket, in token·ms, and the instant at which it
-- was computed; the rule's time then; the instant from which the bucket is full.
if used[TOKEN] then
  -- Returns a / b rounded up, exact below 2^53.
  local function div_up(a, b)
    local rest = math.fmod(a, b)
    return rest > 0 and (a - rest) / b + 1 or a / b
  end

  -- Returns the amount missing now.
  local function missing_at(s, r, now)
    if now >= s.full then return 0 end
    local missing = math.min(s.missing, r.size * r.time)
    if s.time ~= r.time and missing > 0 then
      missing = math.min(div_up(s.missing, s.time), r.size) * r.time
    end
    local elapsed = now - s.at
    if elapsed <= 0 then return missing end
    -- Compare before multiplying: count × elapsed may exceed 2^53.
    if elapsed >= div_up(missing, r.count) then return 0 end
    return missing - r.count * elapsed
  end

  -- Returns the number of whole tokens in a level.
  local function whole(level, time)
    return (level - math.fmod(level, time)) / time
  end

  -- Returns the state with an amount missing now.
  local function state(s, r, now, missing)
    local at = math.max(now, s.at)
    return {missing = missing, at = at, time = r.time, full = at + div_up(missing, r.count)}
  end

  methods[TOKEN] = {
    unused = {missing = 0, at = 0, time = 0, full = 0},

    read = function(s, r, now)
      local burst, weight = r.size, r.weight
      local missing = missing_at(s, r, now)
      local level = burst * r.time - missing
      local tokens = whole(level, r.time)
      local admits, retry = weight <= tokens, -1
      if not admits and weight <= burst then retry = div_up(weight * r.time - level, r.count) end
      return admits, burst, tokens, div_up(missing, r.count), retry, burst - tokens
    end,

    add = function(s, r, now)
      local missing, size = missing_at(s, r, now), r.size * r.time
      if r.weight > whole(size - missing, r.time) then
        return state(s, r, now, size) -- an empty bucket gets no emptier
      end
      return state(s, r, now, missing + r.weight * r.time)
    end,

    refund = function(s, r, now)
      local missing = missing_at(s, r, now)
      if missing == 0 then return s end
      if r.weight >= r.size then return state(s, r, now, 0) end
      return state(s, r, now, math.max(missing - r.weight * r.time, 0))
    end,

    undo_record = function(_, s)
      return 1, s.at, 0, 0
    end,

    -- Tokens that were refilled since the take are not given back. Without the take
    -- the bucket might have been full, and the refill lost. Whether it was cannot be
    -- known, because other calls may have given back meanwhile.
    give_back = function(s, r, now, _, _, at)
      local missing, tokens, elapsed = missing_at(s, r, now), r.weight * r.time, math.max(now - at, 0)
      if missing == 0 or s.time ~= r.time or elapsed >= div_up(tokens, r.count) then return s end
      return state(s, r, now, math.max(missing - tokens + r.count * elapsed, 0))
    end,

    decode = function(body, till, _, far)
      if #body ~= 18 then return nil end
      local missing, at, time = struct.unpack('>I7I6I5', body)
      if time > 0 and at < far then return {missing = missing, at = at, time = time, full = till} end
    end,

    encode = function(s, tag)
      local full = math.min(s.full, 140737488355328) -- 2^47, the year 6429: instants have six bytes
      return struct.pack('>I5I6I2I7I6I5', tag, full, 18, s.missing, s.at, s.time), full
    end,
  }
end
