-- Leases -----------------------------------------------------------------------
--
-- Instances hold parts of limits in advance (package lease). What they hold is counted
-- already: as hits of a window, as missing in a bucket. Beside the counter, under the tag
-- return × 8, is what of that may still be unspent: the era of these parts, the end of
-- their window (0 for token), and for each instant at which parts end, the hits in them.
-- An era begins when nothing is leased, and ends with the window. A reset and a ban
-- continue it: what is held stays counted.
--
-- A request for a part has the era of the part that the instance holds and the instant of
-- its end, 0 without one; how many of its hits are recorded there; how many the instance
-- keeps, for longer, and how many it gives back; how many more it wants; and for how long,
-- in ms. Nothing is kept or given back but what is recorded and has not ended: a reset or a
-- refund since may have forgotten other hits, others may hold the same share, and a bucket
-- has been refilled. The reply is, in six bytes each, the era, which is another if nothing
-- was given back and nothing is kept, and the end; in seven bytes each, the granted hits,
-- what remains, when the counter is as new in ms, and all hits that may be unspent.

-- Parts last a minute and a half at most. Those that end later than within a day are
-- damaged or forged, and not counted: a bucket would not fill again until they end. Clocks
-- that are set back by less change nothing.

local LEASES = 0
local lease, reset_leased, parts_held
local lent_of, clip_shared, coming_of -- see shares.lua

if used.leases then
  methods[LEASES] = {
    decode = function(body, till)
      local size = #body
      if size < 25 or (size - 12) % 13 ~= 0 then return nil end
      local s = {till = till}
      s.era, s.closes = struct.unpack('>I6I6', body)
      for at = 13, size, 13 do
        local ends, held = struct.unpack('>I6I7', body, at)
        s[#s + 1] = {ends = ends, held = held}
      end
      return s
    end,

    encode = function(s, tag)
      local texts = {struct.pack('>I5I6I2I6I6', tag, s.till, 12 + 13 * #s, s.era, s.closes)}
      for i = 1, #s do texts[i + 1] = struct.pack('>I6I7', s[i].ends, s[i].held) end
      return table.concat(texts), s.till
    end,
  }

  -- Returns whether a part is not damaged, and whether it has not ended either.
  local function sound(part, now) return part.ends <= now + 86400000 end
  local function lasts(part, now) return part.ends > now and sound(part, now) end

  -- Returns what instances hold now of the rule's counter. closes is the end of its window,
  -- 0 for token.
  parts_held = function(r, closes, now)
    local s, held = r.lease and r.lease[4], 0
    if s and s.closes == closes and (closes == 0 or now < closes) then
      for i = 1, #s do
        if lasts(s[i], now) then held = held + s[i].held end
      end
    end
    return held
  end

  -- Returns what instances and gateways hold.
  local function held_of(r, closes, now)
    local held = parts_held(r, closes, now)
    return r.shares and held + lent_of(r, closes, now) or held
  end

  -- Returns the parts of the lease s that have not ended, in a window that ends at closes.
  local function moved(s, closes, now)
    local copy = {till = s.till, era = s.era, closes = closes}
    for i = 1, #s do
      if lasts(s[i], now) then copy[#copy + 1] = s[i] end
    end
    return copy
  end

  local window, token = methods[COUNT], methods[TOKEN]
  local plain = {[COUNT] = {}, [TOKEN] = {}}
  for tag, method in pairs({[COUNT] = window, [TOKEN] = token}) do
    for name, f in pairs(method) do plain[tag][name] = f end
  end

  if window then
    local plain = plain[COUNT]

    window.read = function(s, r, now)
      local admits, limit, left, reset, retry, hits, kind = plain.read(s, r, now)
      if not admits and not kind and r.need <= limit - hits + held_of(r, s.closes, now) then kind = 16 end
      return admits, limit, left, reset, retry, hits, kind
    end

    -- What is held can still be spent: it stays counted, whatever is given back.
    for _, name in ipairs({'refund', 'give_back', 'settle'}) do
      local f = plain[name]
      window[name] = function(s, r, now, ...)
        local after, held = f(s, r, now, ...), held_of(r, s.closes, now)
        if held == 0 or after and after.hits >= held then return after end
        return {hits = math.min(held, s.hits), closes = s.closes}
      end
    end

    -- A refusal because of what is held opens no ban. What the refusal was is seen when it
    -- happens, and not again when other sets are undone.
    window.ban = function(s, r, now)
      if r.early == nil then
        local _, _, _, _, _, _, kind = window.read(s, r, now)
        r.early = kind == 16
      end
      if r.early then return s end
      local banned = plain.ban(s, r, now)
      if banned ~= s and parts_held(r, s.closes, now) > 0 then r.lease[4] = moved(r.lease[4], banned.closes, now) end
      return banned
    end
  end

  -- Returns a bucket that was filled to burst less what was held at each instant. Nothing
  -- changes before s.at: every state is written clipped.
  local function clip(s, r, now)
    if r.shares then return clip_shared(s, r, now) end
    local l, held = r.lease and r.lease[4], 0
    if not l then return s end
    for i = 1, #l do
      if sound(l[i], now) then held = held + l[i].held end
    end
    for i = 1, #l do -- in order of their ends
      if not sound(l[i], now) then return s end
      if l[i].ends > now then return token.bound(s, r, now, held) end
      if s.at < l[i].ends then s = token.bound(s, r, l[i].ends, held) end
      held = held - l[i].held
    end
    return s
  end

  if token then
    local plain = plain[TOKEN]

    token.read = function(s, r, now)
      s = clip(s, r, now)
      if r.shares then s = token.shift(s, r, now, coming_of(r, now, s)) end
      local admits, limit, left, reset, retry, hits, kind, wait = plain.read(s, r, now)
      if not admits and r.need <= limit - hits + held_of(r, 0, now) then kind = 16 end
      return admits, limit, left, reset, retry, hits, kind, wait
    end

    token.add = function(s, r, now)
      s = clip(s, r, now)
      if not r.shares then return plain.add(s, r, now) end
      local coming = coming_of(r, now, s)
      return token.shift(plain.add(token.shift(s, r, now, coming), r, now), r, now, -coming)
    end
    -- A bucket that is full but for what is held misses nothing: its refill is lost.
    token.undo_record = function(before, s, now, r)
      local flags, at, missing, d = plain.undo_record(before, s, now, r)
      return flags, at, math.max(missing - held_of(r, 0, now) * r.time, 0), d
    end
    for _, name in ipairs({'refund', 'give_back', 'settle'}) do
      local f = plain[name]
      token[name] = function(s, r, now, ...) return clip(f(clip(s, r, now), r, now, ...), r, now) end
    end
  end

  -- Returns the state of a counter after a reset: what is held stays counted.
  reset_leased = function(c, r, now)
    local bucket = r.tag % 8 == TOKEN
    local held = held_of(r, bucket and 0 or c[2] > 0 and c[2] or -1, now)
    if r.lease[4] then r.lease[4] = held > 0 and moved(r.lease[4], bucket and 0 or r.closes, now) or false end
    if r.shares and not bucket then lent_of(r, c[2], now, held > 0 and r.closes) end
    if held > 0 and not bucket then return {hits = held, closes = r.closes} end
  end

  -- Returns the parts of a lease that have not ended, without drop hits of those that end
  -- at ends, and their sum.
  local function alive(l, now, ends, drop)
    local parts, held = {}, 0
    for i = 1, #l do
      local hits = l[i].held
      if l[i].ends == ends then hits = math.max(hits - drop, 0) end
      if lasts(l[i], now) and hits > 0 then
        parts[#parts + 1], held = {ends = l[i].ends, held = hits}, held + hits
      end
    end
    return parts, held
  end

  -- Adds hits that end after span to the parts. Ends are rounded up, so that there are
  -- few. Returns the end.
  local function join_parts(parts, hits, now, span)
    local step = math.ceil(span / 2)
    local ends = math.ceil((now + span) / step) * step
    local at = #parts + 1
    for i = #parts, 1, -1 do
      if parts[i].ends >= ends then at = i end
    end
    if parts[at] and (parts[at].ends == ends or #parts >= 8) then
      parts[at] = {ends = parts[at].ends, held = parts[at].held + hits}
    elseif #parts >= 8 then
      at = #parts
      parts[at] = {ends = ends, held = parts[at].held + hits}
    else
      table.insert(parts, at, {ends = ends, held = hits})
    end
    return parts[at].ends
  end

  lease = function(c, r, now, plan, at)
    local era, ends, drop, keep, back, ask, span = unpack(plan, at, at + 6)
    local bucket, method = r.tag % 8 == TOKEN, plain[r.tag % 8]
    local before = state_of(c) or method.unused
    local s, l = before, r.lease[4]
    local open = bucket or now < s.closes and s.hits <= 9007199254740991
    if not open or l and l.closes ~= (bucket and 0 or s.closes) then l = nil end
    local lent, room, coming = 0, nil, 0
    if r.shares then lent, room = lent_of(r, bucket and 0 or s.closes, now, nil, bucket) end
    if bucket then
      s = clip(s, r, now)
      coming = r.shares and coming_of(r, now, s) or 0
      if r.shares then s = method.shift(s, r, now, coming) end
    end
    local known = l and l.era == era
    if not known then ends, drop, keep, back = 0, 0, 0, 0 end
    if now >= ends then keep, back = 0, 0 end
    local limit = bucket and r.size or r.count
    local most = math.floor(limit / 1000) * r.share + math.floor(limit % 1000 * r.share / 1000)
    if bucket then most = math.floor(most / 2) end -- it may miss as much of its refill
    keep = math.min(keep, most) -- no honest instance holds more
    back = math.min(back, math.max(drop - keep, 0))
    local parts, held = alive(l or {}, now, ends, drop)
    if back > 0 then
      if bucket then
        r.weight = back
        s = method.bound(method.refund(s, r, now), r, now, held + keep + lent)
        r.weight = 0
      else
        s = {hits = math.max(s.hits - back, 0), closes = s.closes}
      end
    end
    local granted = 0
    if ask > 0 and open then
      local _, _, left = method.read(s, r, now)
      granted = math.max(math.min(ask, most - held - keep - (room or lent), math.floor(left / 8)), 0)
    end
    if granted > 0 then
      r.weight = granted
      s = method.add(s, r, now)
      r.weight = 0
    end
    local upto = 0
    if granted + keep > 0 then upto = join_parts(parts, granted + keep, now, span) end
    held = held + granted + keep
    if ask + drop + keep + back > 0 and open then
      if s ~= before then set_state(c, coming > 0 and method.shift(s, r, now, -coming) or s) end
      local till = #parts > 0 and parts[#parts].ends or 0
      if bucket then till = till + math.ceil(held * r.time / r.count) end -- until then the bucket may not be full
      r.lease[4] = #parts > 0 and {
        till = math.min(till, now + 63158400000), -- a day before far
        era = l and l.era or now, closes = bucket and 0 or s.closes, unpack(parts),
      } or false
    end
    local _, _, left, reset = method.read(s, r, now)
    l = r.lease[4]
    if not known then era = l and open and l.era or 0 end
    return struct.pack('>I6I6I7I7I7I7', era, upto, granted, left, reset, held)
  end
end
