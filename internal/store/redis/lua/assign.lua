-- Assigning shares ---------------------------------------------------------------
--
-- A request has a number for the name of the holder, and one for its stream; 1 if it reports,
-- plus 2 if its bucket will be full afresh, plus 4 if it leaves, or 8 to reduce its share to a
-- rate and a burst, which follow in place of the hits, or 16 only to look, plus 32 if it had
-- another stream before; the allowed and the denied hits, and the time in which they were; and
-- how long a share is to last. The reply is 1 if the holder must get the assignment, the reason
-- if there is none, the index of the rule in two bytes, in seven bytes each the rate, the burst,
-- how long it lasts, the rest of a ban, the forfeited hits, the debt, the rates of all holders
-- and of the limit, and the number of holders in two bytes.

if used.leases then
  -- Returns the function that answers a request, from functions of shares.lua.
  define_assign = function(of)
    local div, up, lasts, rate_at, ahead, list_of, sums = of.div, of.up, of.lasts, of.rate_at, of.ahead, of.list_of, of.sums
    local to_level, to_units, refill, most_lent, share_of, burst_of, committed = of.to_level, of.to_units, of.refill, of.most_lent, of.share_of, of.burst_of, of.committed
    local HIT, WAY, SHORTEST, REPORT, KEEP, MOST, HOLDERS = 10000, 500, 1500, 7000, 30000, 2147483648, 128
    local floor, max, min = math.floor, math.max, math.min
    local token = methods[TOKEN]

    local function assigned(l, now) return now < l.ends and l.burst > 0 end
    local function reserved(l, now) return now < l.ends and l.left or 0 end

    -- Returns the units that the holder's bucket may have.
    local function rest_of(l, now, unit) return max(l.left - ahead(l, now, unit), 0) end

    -- Returns the max-min fair part of total for a holder that wants own.
    local function fair(total, own, wants)
      local n, served = #wants + 1, -1
      local level = div(total, n)
      while true do
        local sum, number = 0, 0
        if own <= level then sum, number = own, 1 end
        for i = 1, n - 1 do
          if wants[i] <= level then sum, number = sum + wants[i], number + 1 end
        end
        if number == n or number == served then return min(own, level) end
        served, level = number, div(total - sum, n - number)
      end
    end

    -- Returns the share of the holder, nil if it has none, and the rate that another holder of
    -- its name wants, 0 without one. If it returns, a share of its name becomes its own: the one
    -- that was not reported for the longest time, if possible one that lasts.
    local function own_of(s, now, a, b, returns)
      local own, alike
      for i = 1, #s do
        local l = s[i]
        if l.a == a and now - max(l.ends, l.seen) <= KEEP then
          if l.b == b then own = l
          elseif not alike or lasts(l, now) and not lasts(alike, now) or lasts(l, now) == lasts(alike, now) and l.seen < alike.seen then alike = l end
        end
      end
      if returns and alike and not own then
        alike.b = b
        return own_of(s, now, a, b)
      end
      return own, alike and alike.want or 0
    end

    -- Returns what a counter can lend, and the share of the holder.
    local function pool_of(r, c, now, a, b, span, returns)
      local bucket = r.tag % 8 == TOKEN
      local before = state_of(c) or r.method.unused
      local open = bucket or now < before.closes
      local closes = bucket and 0 or open and before.closes or r.closes
      local s = list_of(r, closes, now)
      local own, alike = own_of(s, now, a, b, returns)
      local p = {bucket = bucket, closes = closes, list = s, unit = bucket and 1 or HIT, lasting = span, back = 0, wants = {}}
      p.latest = bucket and max(now, before.at) or now
      for i = 1, #s do
        local l = s[i]
        if not (l.a == a and l.b == b) and (lasts(l, now) or now - l.seen <= REPORT) then p.wants[#p.wants + 1] = l.want end
      end
      p.rate, p.burst, p.left, p.ahead, p.ends = sums(s, now, own)
      local parts = parts_held(r, closes, now)
      if bucket then
        before = clip_shared(before, r, now)
        local level, size = token.level(before, r, now)
        local rate, burst = sums(s, now)
        local _, _, _, units = sums(s, max(now, before.at))
        p.refill, p.bursts = refill(r), floor(share_of(r, r.size) / 2)
        p.stock = to_units(level, r.time) + units
        local whole = to_units(size, r.time)
        p.size, p.fastest = whole - (burst + parts) * HIT, p.refill + div(whole, SHORTEST)
        local since, peak = now - s.turned, max(p.stock, s.stock + max(p.refill - rate, 0) * max(now - s.at, 0))
        if since > 2 * REPORT then p.before, p.high, p.turned = p.stock, p.stock, now
        elseif since > REPORT then p.before, p.high, p.turned = s.high, peak, now
        else p.before, p.high, p.turned = s.before, max(s.high, peak), min(s.turned, now) end
      else
        local most = min(share_of(r, r.count), 549755813888)
        p.most, p.bursts, p.fastest = max(most - parts, 0) * HIT, floor(most / 4), div(most * HIT, SHORTEST)
        p.stock = min(max(r.count - (open and before.hits or 0), 0), 549755813888) * HIT
      end
      p.room = p.bursts - p.burst - (bucket and parts or 0) -- of bursts
      p.state, p.known, p.alike = before, own ~= nil, alike
      p.own = {a = a, b = b, ends = 0, cut = 0, rate = 0, more = 0, burst = 0, left = 0, want = 0, seen = now}
      for name, value in pairs(own or {}) do p.own[name] = value end
      return p
    end

    -- Takes from the share what its holder has admitted.
    local function record(p, allowed, now)
      local l = p.own
      l.left = l.left - allowed * HIT
      local rest = l.left - ahead(l, now, p.unit)
      local most = l.burst * HIT + rate_at(l, now) * WAY
      most = most - most % p.unit
      if rest < 0 then
        p.back, l.left = p.bucket and max(rest, min(-p.stock - p.size, 0)) or rest, l.left - rest
      elseif assigned(l, now) and rest > most then
        p.back = now - l.seen > REPORT and 0 or rest - most
        if p.bucket then
          p.back = max(min(p.back, p.size - max(p.high, p.before)), 0)
          p.high = p.high + p.back
        end
        l.left = l.left - (rest - most)
      end
      p.stock = p.stock + p.back
    end

    local function total_of(p)
      if p.bucket then return p.refill end
      return div(max(p.most - p.bursts * HIT, 0), p.lasting)
    end

    local function fair_rate(p, total, free)
      if free < 1 then return 0 end
      return max(min(fair(total, p.own.want, p.wants), free, MOST), 1)
    end

    -- Returns the rate and the burst that the holder can get.
    local function offer(p, now, keeps, grows)
      local l = p.own
      local burst, own, saved = burst_of(p.bursts, #p.wants + 1), min(ahead(l, p.latest, p.unit), l.left), 0
      if lasts(l, p.latest) and l.burst == 0 then saved = rest_of(l, now, p.unit) end -- nothing in a time that has yet to pass again
      local late = l.ends - p.latest < 2 * WAY
      if not p.bucket then
        if keeps then own = l.left end
        local spare, taken = min(p.stock + own, p.most - p.left), rest_of(l, now, p.unit)
        if keeps then
          burst = min(burst, l.burst)
          if late then taken = max(taken, burst * HIT) end
        else
          burst = max(min(burst, p.room, div(spare, HIT)), 0)
          taken = burst * HIT
        end
        local total, free = min(total_of(p), div(max(p.stock + own + p.left, 0), p.lasting)), div(spare - taken - p.unit, p.lasting)
        local rate, way = rate_at(l, now), min(WAY, l.ends - now)
        if keeps and free < rate then free = div(spare - taken - p.unit - rate * way, p.lasting - way) end
        return fair_rate(p, total, free), burst
      end
      local free = max(p.stock - committed(p.rate, p.ends, p.refill, now), 0) + saved
      if keeps then
        local most = l.burst
        if grows and not late then
          local before = max(p.rate + rate_at(l, p.latest) - p.refill, 0) * WAY
          most = max(most, min(most + div(free - before, HIT), p.room))
        end
        burst = min(burst, most)
        p.stock = p.stock - max(burst - l.burst, 0) * HIT
        local lacks = burst * HIT - rest_of(l, p.latest, p.unit)
        if late and lacks > 0 then
          if lacks > free then burst = 0 else p.stock = p.stock - lacks end
        end
      else
        burst = max(min(burst, p.room, div(free, HIT)), 0)
        p.stock = p.stock - (burst * HIT - saved)
      end
      local total = p.refill + div(p.stock, p.stock > 0 and 2 * p.lasting or p.lasting)
      return fair_rate(p, total, total - p.rate), burst
    end

    -- Makes the offer the holder's share. Returns the units that it forfeits.
    local function give(p, rate, burst, now, keeps)
      local l = p.own
      local held, rest, forfeited, more, cut = reserved(l, p.latest), rest_of(l, p.latest, p.unit), 0, 0, 0
      if keeps then
        if l.ends - p.latest < 2 * WAY then rest = max(rest, burst * HIT) else rest = rest + max(burst - l.burst, 0) * HIT end
      elseif lasts(l, p.latest) and l.burst == 0 then
        rest = min(rest_of(l, now, p.unit), max(div(p.bursts, 4), 1) * HIT)
        if burst > 0 then rest = burst * HIT end
      else
        held, forfeited, rest = l.left - rest, rest, burst * HIT
      end
      if assigned(l, p.latest) then more, cut = max(rate_at(l, p.latest) - rate, 0), min(now + WAY, l.ends) end
      l.more, l.cut, l.rate, l.burst, l.ends = more, cut, rate, burst, now + p.lasting
      l.left = rest + up(ahead(l, now, 1), p.unit) * p.unit
      p.back = p.back + held - l.left
      return forfeited
    end

    -- Gives the counter what it gets back, and writes the shares.
    local function lend(p, r, c, now)
      local l, list, drops = p.own, {closes = p.closes, stock = 0, at = 0, high = 0, before = 0, turned = 0}, p.drops
      for i = 1, #p.list do
        local one = p.list[i]
        if not (one.a == l.a and one.b == l.b) and now - max(one.ends, one.seen) <= KEEP then
          if not drops and one.ends >= l.ends then list[#list + 1], drops = l, true end
          list[#list + 1] = one
        end
      end
      if not drops then list[#list + 1] = l end
      if #list > HOLDERS then -- TOO_MANY has seen to it that one does not count
        local i = 1
        while list[i] and (lasts(list[i], now) or now - list[i].seen <= REPORT) do i = i + 1 end
        table.remove(list, i)
      end
      r.shares[4] = #list > 0 and list or false
      if p.bucket then
        local level, size = token.level(p.state, r, now)
        local s = clip_shared(token.shift(p.state, r, now, -to_level(min(-p.back, most_lent(r)), r.time)), r, now, size - level)
        local _, _, _, units = sums(list, max(now, s.at))
        list.stock, list.at = to_units(token.level(s, r, now), r.time) + units, now
        list.high, list.before, list.turned = p.high, p.before, p.turned
        set_state(c, s)
      else
        local hits = -p.back / HIT
        if now < p.state.closes then
          set_state(c, {hits = max(min(p.state.hits, 9007199254740991 - hits) + hits, 0), closes = p.state.closes})
        elseif hits > 0 then
          set_state(c, {hits = hits, closes = p.closes})
        else
          r.shares[4] = false
        end
      end
    end

    -- Reduces a share to the rate and the burst that the holder has got, 0 if it got nothing: then
    -- one that kept its bucket goes on with that. The share of a bucket that is full afresh had no
    -- rate before it.
    local function reduce(r, c, now, a, b, rate, burst, fresh)
      local p = pool_of(r, c, now, a, b, WAY)
      local l, rest = p.own, rest_of(p.own, now, p.unit)
      fresh = fresh or l.cut == 0
      if not assigned(l, now) or burst == 0 and not fresh then return end
      if fresh then rest = min(rest, burst * HIT) end
      if now < l.cut then l.more = max(l.rate + l.more - rate, 0) end
      l.rate, l.burst = min(l.rate, rate), min(l.burst, burst)
      local left = min(rest + up(ahead(l, now, 1), p.unit) * p.unit, l.left)
      p.back, l.left = l.left - left, left
      lend(p, r, c, now)
    end

    -- Sets the rate that the holder wants.
    local function wish(p, reported, asked, elapsed)
      local l, total = p.own, total_of(p)
      if reported and elapsed >= 500 then
        l.want = min(max(div(div(asked * HIT, elapsed) * 6, 5) + div(total, 50), 1), MOST)
      elseif l.want == 0 then
        l.want = max(p.alike > 0 and p.alike or div(total, 4), 1)
      end
    end

    local SILENT, ENDS, TOO_MANY, BANNED, LEFT, NO_RATE, NO_BURST = 4, 5, 3, 6, 7, 1, 2

    local function reply(send, reason, rule, rate, burst, span, banned, forfeited, debt, p, now)
      local lent, limit, holders = 0, 0, 0
      if p then
        lent, limit, holders = p.rate, total_of(p), #p.wants
        if not p.drops and (lasts(p.own, now) or now - p.own.seen <= REPORT) then lent, holders = lent + p.own.rate, holders + 1 end
      end
      return struct.pack('>BBI2I7I7I7I7I7I7I7I7I2', send, reason, rule - 1, rate, burst, span, banned, forfeited, debt, lent, limit, holders)
    end

    return function(rules, counters, now, plan, uses)
      local a, b, flags, allowed, denied, elapsed, span = unpack(plan, uses[1], uses[1] + 6)
      local reported, fresh, leaves, returns = flags % 2 == 1, flags % 4 >= 2, flags % 8 >= 4, flags >= 32
      flags = flags % 32
      local n, pools, debt, reason, rule, least = #rules, {}, 0, 0, 1, span
      if flags >= 16 then
        local p = pool_of(rules[1], counters[1], now, a, b, span + WAY)
        p.drops = true -- nobody holds a share by looking
        return reply(0, 0, 1, 0, 0, 0, 0, 0, 0, #p.wants > 0 and p or nil, now)
      end
      if flags >= 8 then
        for j = 1, n do reduce(rules[j], counters[j], now, a, b, allowed, denied, fresh) end
        return reply(0, LEFT, 1, 0, 0, 0, 0, 0, 0)
      end
      for j = 1, n do
        local s = state_of(counters[j])
        if rules[j].counts and s and s.hits > 9007199254740991 and now < s.closes then
          return reply(0, BANNED, j, 0, 0, 0, s.closes - now, 0, 0)
        end
      end
      for j = 1, n do
        local p = pool_of(rules[j], counters[j], now, a, b, span + WAY, returns)
        pools[j] = p
        if reported then
          record(p, allowed, now)
          p.own.seen, debt = now, max(debt, up(max(-p.back, 0), HIT))
        end
        p.keeps = assigned(p.own, p.latest) and not fresh
      end
      local forfeited, send, rate, burst = 0, 0, MOST, MOST
      for j = 1, leaves and 0 or n do
        local p = pools[j]
        local left = p.bucket and span or min(span, div(p.closes - now - WAY, 1000) * 1000)
        if now - p.own.seen > REPORT or not p.known and not reported and p.alike > 0 then reason, rule = SILENT, j
        elseif left < 1000 then reason, rule = ENDS, j
        elseif not p.known and #p.wants >= HOLDERS then reason, rule = TOO_MANY, j end
        least = min(least, left)
      end
      if leaves then
        reason = LEFT
        for j = 1, n do
          local p = pools[j]
          local l, free = p.own, reserved(p.own, p.latest)
          if assigned(l, p.latest) then
            free = ahead(l, p.latest, 1) - rate_at(l, p.latest) * min(WAY, l.ends - p.latest)
            free = min(max(free - free % p.unit, 0), l.left)
          end
          forfeited, p.back, p.drops = max(forfeited, div(l.left - free, HIT)), p.back + free, true
        end
      elseif reason > 0 then
        for j = 1, n do pools[j].drops = not pools[j].known end
      else
        local keeps, stays = true, not reported
        for j = 1, n do
          local p = pools[j]
          p.lasting = least + WAY
          wish(p, reported, allowed + denied, elapsed)
          p.offered, p.full = offer(p, now, p.keeps, reported)
          if p.offered < rate then rule = j end
          rate, burst, keeps = min(rate, p.offered), min(burst, p.full), keeps and p.keeps
        end
        for j = 1, n do
          local l = pools[j].own
          if burst ~= l.burst or math.abs(rate - l.rate) * 10 > l.rate or l.ends - now <= WAY + 2000 then stays = false end
        end
        if rate == 0 then reason = NO_RATE
        elseif burst == 0 then reason = NO_BURST
        elseif not (keeps and stays) then send = 1 end
        for j = 1, n do
          local p = pools[j]
          if send == 1 then
            forfeited = max(forfeited, div(give(p, rate, burst, now, p.keeps), HIT))
          elseif reason > 0 and not p.keeps then
            forfeited = max(forfeited, div(give(p, p.bucket and p.offered or 0, 0, now, false), HIT))
          end
        end
      end
      for j = 1, n do lend(pools[j], rules[j], counters[j], now) end
      rate, burst, least = MOST, MOST, 60000
      for j = 1, n do
        local l = pools[j].own
        local left = div(l.ends - now - WAY, 1000) * 1000
        if pools[j].drops or not assigned(l, now) or left <= 0 then
          rate, burst, least = 0, 0, 0
          break
        end
        -- No more than the rule lends: a record may be damaged.
        rate, burst, least = min(rate, l.rate, pools[j].fastest), min(burst, l.burst, pools[j].bursts), min(least, left, span)
      end
      if rate < 1 or burst < 1 then rate, burst, least = 0, 0, 0 end
      return reply(send, reason, rule, rate, burst, least, 0, forfeited, debt, pools[rule], now)
    end
  end
end
