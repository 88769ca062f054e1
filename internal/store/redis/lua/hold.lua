-- hold: weights that are held at the same time, as runs in the order in which they run
-- out. A run is the instant at which it runs out and its weight. Up to FEW runs are in the
-- value. More are in leaves of some hundred runs each, the fields of a hash: the value
-- then has for each leaf the instant of its first run, which names it, the sum of its
-- weights and the number of its runs. So a step reads and writes one or two leaves, however
-- many runs there are. leaves has the runs of the leaves that were read or changed, false
-- for a leaf that is gone. A counter whose value holds its runs has one leaf.
if used[HOLD] then
  local FEW, LEAF, MOST = 64, 256, 4000 -- MOST leaves fit into an entry; LEAF is what an appended leaf has at most

  -- Returns the first instant, the sum and the number of runs of leaf i, from 1.
  local function leaf(s, i)
    return struct.unpack('>I6I7I2', s.list, i * 15 - 14)
  end

  -- Returns the runs of the leaf of an instant. A lost leaf has none: its weight is held
  -- until it runs out.
  local function runs_of(s, first)
    local runs = s.leaves[first]
    if runs then return runs end
    if runs == nil and s.hashed then
      runs = s.read[first]
      if not runs then
        runs = redis.pcall('HGET', s.log, struct.pack('>I6', first))
        if type(runs) == 'table' then
          if not string.find(runs.err, 'WRONGTYPE', 1, true) then error(runs.err, 0) end
          runs = false
        end
        if not runs or #runs % 13 ~= 0 then runs = '' end
        s.read[first] = runs
      end
      return runs
    end
    return ''
  end

  local function copy(s)
    local p = {total = s.total, newest = s.newest, oldest = s.oldest, list = s.list, leaves = {}, read = s.read, hashed = s.hashed, expires = s.expires, log = s.log}
    for first, runs in pairs(s.leaves) do p.leaves[first] = runs end
    return p
  end

  -- Returns the number of runs in a leaf that run out by an instant.
  local function out(runs, till)
    local low, high = 0, #runs / 13
    while low < high do
      local middle = math.floor((low + high) / 2)
      if struct.unpack('>I6', runs, middle * 13 + 1) <= till then low = middle + 1 else high = middle end
    end
    return low
  end

  -- Returns the last leaf that begins by an instant, or the first one.
  local function leaf_at(s, instant)
    local low, high = 1, #s.list / 15
    while low < high do
      local middle = math.ceil((low + high) / 2)
      if struct.unpack('>I6', s.list, middle * 15 - 14) <= instant then low = middle else high = middle - 1 end
    end
    return low
  end

  local function sum_of(runs, from, upto)
    local sum = 0
    for at = from * 13 - 6, upto * 13 - 6, 13 do sum = sum + struct.unpack('>I7', runs, at) end
    return sum
  end

  -- Replaces leaves i to j of a copy by those in more: first instants and runs, in order.
  local function replace(p, i, j, sums, ...)
    local texts, more = {string.sub(p.list, 1, i * 15 - 15)}, {...}
    for k = i, j do p.leaves[leaf(p, k)] = false end
    for k = 1, #more do
      local runs = more[k]
      if runs ~= '' then
        local first = struct.unpack('>I6', runs)
        p.leaves[first] = runs
        texts[#texts + 1] = struct.pack('>I6I7I2', first, sums[k], math.min(#runs / 13, 65535))
      end
    end
    texts[#texts + 1] = string.sub(p.list, j * 15 + 1)
    p.list = table.concat(texts)
  end

  -- Sets the instants of the oldest and of the newest run; nil if nothing is held.
  local function bounded(p)
    local n = #p.list / 15
    if n == 0 or p.total <= 0 then return nil end
    p.oldest = leaf(p, 1)
    local first = leaf(p, n)
    local runs = runs_of(p, first)
    if runs ~= '' then p.newest = struct.unpack('>I6', runs, #runs - 12) end
    return p
  end

  -- Returns the state without the runs that have run out; nil if none remains.
  local function living(s, now)
    if not s.newest or now >= s.newest then return nil end
    if now < s.oldest then return s end
    if s.living_at == now then return s.then_living end
    local p, n, gone, sum = copy(s), #s.list / 15, 0, 0
    while gone + 1 < n and leaf(p, gone + 2) <= now do
      local first, weight = leaf(p, gone + 1)
      p.leaves[first], sum, gone = false, sum + weight, gone + 1
    end
    p.total, p.list = p.total - sum, string.sub(p.list, gone * 15 + 1)
    local first, weight = leaf(p, 1)
    local runs = runs_of(p, first)
    local left = out(runs, now)
    if left > 0 then
      local less = sum_of(runs, 1, left)
      p.total = p.total - less
      replace(p, 1, 1, {weight - less}, string.sub(runs, left * 13 + 1))
    end
    p = bounded(p)
    s.living_at, s.then_living = now, p
    return p
  end

  -- Returns the state with n more held until an instant.
  local function put(s, instant, n)
    local p, run = copy(s), struct.pack('>I6I7', instant, n)
    p.total = p.total + n
    local leaves = #p.list / 15
    if leaves == 0 then
      replace(p, 1, 0, {n}, run)
    else
      local i = leaf_at(p, instant)
      local first, weight, count = leaf(p, i)
      if i == leaves and count >= LEAF and instant > p.newest and leaves < MOST then
        replace(p, i + 1, i, {n}, run)
      else
        local runs = runs_of(p, first)
        local at = out(runs, instant - 1)
        local same, held = struct.unpack('>I6I7', runs .. '\0\0\0\0\0\0\0\0\0\0\0\0\0', at * 13 + 1)
        if same == instant then run = struct.pack('>I6I7', instant, held + n) end
        runs = string.sub(runs, 1, at * 13) .. run .. string.sub(runs, (same == instant and at + 1 or at) * 13 + 1)
        if #runs > 2 * LEAF * 13 and leaves < MOST then
          local half = LEAF * 13
          local older = sum_of(runs, 1, LEAF)
          replace(p, i, i, {older, weight + n - older}, string.sub(runs, 1, half), string.sub(runs, half + 1))
        else
          replace(p, i, i, {weight + n}, runs)
        end
      end
    end
    p.oldest = leaf(p, 1)
    p.newest = math.max(p.newest or 0, instant)
    return p
  end

  -- Returns the state with up to n less held until an instant, and how much less; nil if
  -- nothing remains.
  local function free(s, instant, n)
    local i = leaf_at(s, instant)
    local first, weight, count = leaf(s, i)
    local runs = runs_of(s, first)
    local at = out(runs, instant - 1)
    local same, held = struct.unpack('>I6I7', runs .. '\0\0\0\0\0\0\0\0\0\0\0\0\0', at * 13 + 1)
    if same ~= instant then return s, 0 end
    n = math.min(n, held)
    local p, run = copy(s), n < held and struct.pack('>I6I7', instant, held - n) or ''
    runs = string.sub(runs, 1, at * 13) .. run .. string.sub(runs, at * 13 + 14)
    p.total = p.total - n
    if #runs < LEAF * 13 / 4 and i > 1 then -- with the leaf before it, unless that is full
      local before, more, others = leaf(p, i - 1)
      if others + #runs / 13 <= LEAF then
        replace(p, i - 1, i, {more + weight - n}, runs_of(p, before) .. runs)
        return bounded(p), n
      end
    end
    replace(p, i, i, {weight - n}, runs)
    return bounded(p), n
  end

  -- Returns the instant by which a weight has run out.
  local function runs_out(s, n)
    for i = 1, #s.list / 15 do
      local first, weight = leaf(s, i)
      if weight >= n then
        local runs = runs_of(s, first)
        for at = 1, #runs, 13 do
          local instant, held = struct.unpack('>I6I7', runs, at)
          if held >= n then return instant end
          n = n - held
        end
        return s.newest
      end
      n = n - weight
    end
    return s.newest
  end

  -- Writes the leaves that changed. A counter with few runs needs none.
  local function write_leaves(s, log, stored, few, now)
    local had = stored and stored.hashed and s.hashed
    if few then
      if stored and stored.hashed then redis.call('DEL', log) end
      s.hashed, s.expires = false, 0
      return
    end
    local set, gone = {}, {}
    for first, runs in pairs(s.leaves) do
      local field = struct.pack('>I6', first)
      if runs then set[#set + 1], set[#set + 2] = field, runs elseif had then gone[#gone + 1] = field end
    end
    if not had and log then redis.call('DEL', log) end -- what another program may have left there
    for i = 1, #gone, 1000 do redis.call('HDEL', log, unpack(gone, i, math.min(i + 999, #gone))) end
    for i = 1, #set, 1000 do redis.call('HSET', log, unpack(set, i, math.min(i + 999, #set))) end
    if not had or s.newest > s.expires then
      s.expires = expiry(s.newest, now, linger)
      redis.call('PEXPIRE', log, string.format('%.0f', s.expires - now))
    end
    s.hashed = true
  end

  methods[HOLD] = {
    unused = {total = 0, list = '', leaves = {}, read = {}},

    read = function(s, r, now)
      local limit, need, p = r.count, r.need, living(s, now)
      local held, newest = p and p.total or 0, p and p.newest or now
      local admits, retry = need <= limit - held, -1
      if not admits and need <= limit then retry = runs_out(p, held - (limit - need)) - now end
      return admits, limit, math.max(limit - held, 0), newest - now, retry, held
    end,

    add = function(s, r, now)
      return put(living(s, now) or {total = 0, list = '', leaves = {}, read = {}, log = s.log}, r.closes, r.weight)
    end,

    mark = function(_, r) return r.closes, 0 end,

    undo_record = function(_, _, _, r) return 1, r.closes, 0, 0 end,

    give_back = function(s, r, now, _, _, instant)
      local p = living(s, now)
      if not p or instant <= now then return p end
      local left = free(p, instant, r.weight)
      return left
    end,

    -- Returns the state in which a weight is held longer, and until when.
    renew = function(s, r, now, instant)
      local p = living(s, now)
      local till = math.max(instant, r.closes)
      if not p or instant <= now or till == instant then return s, instant end
      local left, n = free(p, instant, r.weight)
      if n == 0 then return s, instant end
      return put(left or {total = 0, list = '', leaves = {}, read = {}, log = s.log}, till, n), till
    end,

    decode = function(body, till, log, far)
      if #body < 33 then return nil end
      local kind, newest, total, log_expires = struct.unpack('>BI6I7I6', body)
      local rest = string.sub(body, 21)
      if newest ~= till or total == 0 or total >= 9007199254740992 then return nil end
      if kind == 1 then
        if #rest % 15 ~= 0 then return nil end
        if not log then error('its log is not named') end
        local s = {total = total, newest = newest, list = rest, leaves = {}, read = {}, hashed = true, log = log, expires = log_expires < far and log_expires or 0}
        s.oldest = leaf(s, 1)
        return s
      end
      if kind ~= 0 or #rest % 13 ~= 0 then return nil end
      local first, n = struct.unpack('>I6', rest), #rest / 13
      if sum_of(rest, 1, n) ~= total then return nil end
      local list = struct.pack('>I6I7I2', first, total, n)
      return {total = total, newest = newest, oldest = first, list = list, leaves = {[first] = rest}, read = {}, log = log, expires = 0}
    end,

    encode = function(s, tag, log, stored, now)
      local few = #s.list == 15
      if few then
        local _, _, n = leaf(s, 1)
        few = n <= FEW or not log
      end
      if not log and not few then error('its log is not named') end
      local runs = few and runs_of(s, leaf(s, 1))
      write_leaves(s, log, stored, few, now)
      local rest = runs or s.list
      return struct.pack('>I5I6I2BI6I7I6', tag, s.newest, 20 + #rest, few and 0 or 1, s.newest, s.total, s.expires) .. rest, s.newest
    end,
  }
end
