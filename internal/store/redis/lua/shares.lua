-- Shares -----------------------------------------------------------------------
--
-- Gateways that decide by themselves hold shares of limits: they admit hits at a rate, and
-- report them later (Assign in package store). memory/shares.go has the same arithmetic, and
-- explains it. Amounts are in units: a hit is 10,000, so that a rate of one hit per 10 s is
-- one unit per ms.
--
-- The shares of a counter are beside it, under the tag return × 8 + 7: the end of their
-- window, 0 for token; the tide of a bucket (its level after the last step, the instant of
-- that, the highest levels since it turned and before that, and when it turned); and for each
-- holder, in the order of their ends: its id, the end of its share, until when a higher rate
-- may last, the rate, how much higher, the burst, what it may still admit, the rate that it
-- wants, and when it last reported. What shares reserve until they end is counted, as hits of
-- a window, as missing in a bucket.

local SHARES = 7
local assign, define_shares, define_assign, shares_at

if used.leases then
  -- Returns the entry of a rule's shares, nil if there is none and it is not created.
  shares_at = function(k, tag, creates)
    local c = subjects[k]
    while c and not creates do
      creates, c = c[1] == tag or c[1] == -1 - tag, c[5]
    end
    if not creates then return nil end
    if not methods[SHARES] then define_shares() end
    return find(k, tag)
  end

  define_shares = function()
    local HIT, REPORT, KEEP, MOST, HOLDERS, LONGEST = 10000, 7000, 30000, 2147483648, 128, 60500
    local floor, max, min = math.floor, math.max, math.min
    local token = methods[TOKEN]

    -- Returns a / b rounded down, and up; exact to 2^53.
    local function div(a, b) return (a - a % b) / b end
    local function up(a, b) return -div(-a, b) end

    methods[SHARES] = {
      decode = function(body, till)
        local size, s, last = #body, {till = till}, 0
        if size < 39 or (size - 39) % 53 ~= 0 or size > 39 + 53 * HOLDERS then return nil end
        s.closes, s.stock, s.at, s.high, s.before, s.turned = struct.unpack('>I6I7I6I7I7I6', body)
        s.stock, s.high, s.before = s.stock - 4503599627370496, s.high - 4503599627370496, s.before - 4503599627370496
        for at = 40, size, 53 do
          local a, b, ends, cut, rate, more, burst, left, want, seen = struct.unpack('>I6I6I6I6I4I4I4I7I4I6', body, at)
          if ends < last or cut > ends or rate + more > MOST or burst > MOST or left > 9007199254740991 then return nil end
          if max(ends, seen) > now + 86400000 then return nil end -- forged, as in lease.lua
          last = ends
          s[#s + 1] = {a = a, b = b, ends = ends, cut = cut, rate = rate, more = more, burst = burst, left = left, want = want, seen = seen}
        end
        return s
      end,

      encode = function(s, tag)
        local function offset(n) return min(max(n, -4503599627370496), 4503599627370495) + 4503599627370496 end
        local till, texts = 0, {}
        for i = 1, #s do
          local l = s[i]
          till = max(till, l.ends, l.seen)
          texts[i] = struct.pack('>I6I6I6I6I4I4I4I7I4I6', l.a, l.b, l.ends, l.cut, l.rate, l.more, l.burst, l.left, l.want, l.seen)
        end
        till = till + KEEP
        return struct.pack('>I5I6I2I6I7I6I7I7I6', tag, till, 39 + 53 * #s, s.closes, offset(s.stock), s.at, offset(s.high), offset(s.before), s.turned) .. table.concat(texts), till
      end,
    }

    local function lasts(l, now) return now < l.ends end

    local function rate_at(l, now)
      if now >= l.ends then return 0 end
      return now < l.cut and l.rate + l.more or l.rate
    end

    -- Returns the units of the rate until the end.
    local function ahead(l, now, unit)
      local units = l.rate * max(l.ends - now, 0) + l.more * max(l.cut - now, 0)
      return units - units % unit
    end

    -- Returns the shares of a rule, none if its window is another one by now.
    local function list_of(r, closes, now)
      local s = r.shares[4]
      return s and s.closes == closes and (closes == 0 or now < closes) and s or {closes = closes, stock = 0, at = 0, high = 0, before = 0, turned = 0}
    end

    -- Returns the sums of the shares that last, but the one of a holder: of their rates, bursts,
    -- what they may admit, and their rates until the end; then the last end.
    local function sums(s, now, except)
      local rate, burst, left, units, ends = 0, 0, 0, 0, 0
      for i = 1, #s do
        local l = s[i]
        if lasts(l, now) and l ~= except then
          rate, burst, left, units, ends = rate + rate_at(l, now), burst + l.burst, left + l.left, units + ahead(l, now, 1), max(ends, l.ends)
        end
      end
      return rate, burst, left, units, ends
    end

    -- Returns what a full bucket lacks at an instant until which the shares from the first
    -- on, and the parts, last.
    local function kept(s, first, parts, at, still)
      local units = 0
      for i = first, #s do
        local l = s[i]
        units = units + (l.burst > 0 and l.burst * HIT + ahead(l, at, 1) or l.left)
      end
      for i = 1, parts and #parts or 0 do
        local ends = parts[i].ends
        if (ends > at or still and ends == at) and ends <= now + 86400000 then units = units + parts[i].held * HIT end
      end
      return units
    end

    -- Returns units in units of a level, rounded up; and a level in units, rounded down.
    local function to_level(units, time)
      local whole = div(units, HIT)
      if whole >= div(9007199254740992, time) then return 9007199254740992 end
      return whole * time + up((units - whole * HIT) * time, HIT)
    end

    local function to_units(level, time)
      local whole = div(level, time)
      local rest = div((level - whole * time) * HIT, time)
      return max(min(whole, 549755813888), -549755813888) * HIT + rest
    end

    local function refill(r) return min(div(min(r.count, 549755813888) * HIT, r.time), MOST) end

    -- Returns more units than a bucket ever lends: a forged record does not empty it for years.
    local function most_lent(r) return 4 * min(r.size, 549755813888) * HIT + 2 * refill(r) * LONGEST end

    local function share_of(r, limit) return floor(limit / 1000) * r.share + floor(limit % 1000 * r.share / 1000) end

    -- Returns the burst of one of so many shares.
    local function burst_of(bursts, holders)
      local n = 4 -- as long as they are few, a further one makes no burst smaller
      while n < holders do n = n * 2 end
      return min(max(div(bursts, n), 1), MOST)
    end

    -- Returns the hits that shares keep. With moves, their window becomes the one that ends
    -- then, or they end; with bursts, only bursts count, and the second result is what all
    -- holders' bursts are to have.
    lent_of = function(r, closes, now, moves, bursts)
      local s = list_of(r, closes, now)
      local _, burst, left = sums(s, now)
      if moves ~= nil and r.shares[4] then
        local copy = false
        if moves and left > 0 then
          copy = {}
          for name, value in pairs(s) do copy[name] = value end
          copy.closes = moves
        end
        r.shares[4] = copy
      end
      if bursts then
        local most, holders = floor(share_of(r, r.size) / 2), 0
        for i = 1, #s do
          if lasts(s[i], now) or now - s[i].seen <= REPORT then holders = holders + 1 end
        end
        return burst, max(burst, holders > 0 and min(holders * burst_of(most, holders), most) or 0)
      end
      if closes > 0 then return left / HIT end
      local first = 1
      while s[first] and not lasts(s[first], now) do first = first + 1 end
      return div(kept(s, first, nil, now), HIT)
    end

    clip_shared = function(s, r, now, missed)
      local l, parts, first, ends = list_of(r, 0, now), r.lease[4] or {}, 1, {}
      local function lacks(at, still) -- as a level
        return to_level(min(kept(l, first, parts, at, still), most_lent(r)), r.time)
      end
      if now < s.at then -- the clock has stepped back: nothing is lost, but what comes back has to fit
        if not missed then return s end
        while l[first] and not lasts(l[first], now) do first = first + 1 end
        return token.lack(s, r, now, min(missed, lacks(now)))
      end
      for i = 1, #l do ends[#ends + 1] = l[i].ends end
      for i = 1, #parts do ends[#ends + 1] = parts[i].ends end
      table.sort(ends)
      for i = 1, #ends do
        if ends[i] > now then break end
        while l[first] and l[first].ends < ends[i] do first = first + 1 end
        if s.at < ends[i] then s = token.lack(s, r, ends[i], lacks(ends[i], true)) end
      end
      while l[first] and l[first].ends <= now do first = first + 1 end
      return token.lack(s, r, now, lacks(now))
    end

    local function committed(rate, ends, filled, now) return max(rate - filled, 0) * max(ends - now, 0) end

    -- If the clock has stepped back, the level has the refill up to its instant already.
    coming_of = function(r, now, s)
      now = max(now, s.at)
      local rate, _, _, units, ends = sums(list_of(r, 0, now), now)
      return to_level(units - min(units, committed(rate, ends, refill(r), now)), r.time)
    end

    -- Requests of other kinds do not need the rest.
    assign = function(...)
      assign = define_assign({
        div = div, up = up, lasts = lasts, rate_at = rate_at, ahead = ahead, list_of = list_of, sums = sums, to_level = to_level,
        to_units = to_units, refill = refill, most_lent = most_lent, share_of = share_of, burst_of = burst_of, committed = committed,
      })
      return assign(...)
    end
  end
end
