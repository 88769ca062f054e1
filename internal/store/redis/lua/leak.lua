-- leak: runs of hits, oldest first. A run is an instant and the number of all hits
-- ever counted up to the run's end; the numbers wrap around at 2^53. The newest
-- runs are in s.runs. Older runs, from number head to before tail, are in the log,
-- a string of its own that is read and written in place: however long it is, a step
-- touches only a few of its runs.
if used[LEAK] then
  -- Returns the number of runs.
  local function length(s)
    return s.tail - s.head + #s.runs / 13
  end

  -- Returns the instant of run i, from 0, and the number of all hits to its end.
  local function run(s, i)
    local logged = s.tail - s.head
    if i >= logged then return struct.unpack('>I6I7', s.runs, (i - logged) * 13 + 1) end
    local at = (s.head + i) * 13
    return struct.unpack('>I6I7', redis.call('GETRANGE', s.log, at, at + 12))
  end

  -- Returns the instant of the oldest run, which is read once per state.
  local function oldest(s)
    if not s.oldest then s.oldest = run(s, 0) end
    return s.oldest
  end

  -- Returns the number of all hits before run i.
  local function up_to(s, i)
    if i == 0 then return s.before end
    local _, n = run(s, i - 1)
    return n
  end

  -- Returns the number of hits from one number to a later one.
  local function between(from, to)
    return (to - from) % 9007199254740992
  end

  -- Returns the number that follows from by n hits.
  local function forward(from, n)
    local left = 9007199254740992 - n
    return from >= left and from - left or from + n
  end

  -- Returns the first run in [i, n) that is later than the instant out; n if none
  -- is.
  local function after(s, i, n, out)
    while i < n do
      local middle = math.floor((i + n) / 2)
      if run(s, middle) > out then n = middle else i = middle + 1 end
    end
    return i
  end

  -- Returns the first run at which the hits from run i on add up to hits.
  local function reaching(s, i, hits)
    local from, n = up_to(s, i), length(s) - 1
    while i < n do
      local middle = math.floor((i + n) / 2)
      local _, to = run(s, middle)
      if between(from, to) >= hits then n = middle else i = middle + 1 end
    end
    return i
  end

  -- Returns the first run that has not left, the number of hits from there on, and
  -- the newest run.
  local function live(s, r, now)
    local n, out, runs = length(s), now - r.time, s.runs
    if n == 0 then return 0, 0, 0, s.before end
    local newest, total
    if runs == '' then newest, total = run(s, n - 1) else newest, total = struct.unpack('>I6I7', runs, #runs - 12) end
    if newest <= out or now >= s.gone then return n, 0, newest, total end
    if n == 1 or oldest(s) > out then return 0, (total - s.before) % 9007199254740992, newest, total end
    local first = after(s, 1, n - 1, out)
    return first, between(up_to(s, first), total), newest, total
  end

  -- Returns the state without the runs that have left, its hits and its newest run.
  local function pruned(s, r, now)
    local first, hits, newest, total = live(s, r, now)
    if hits == 0 then
      return {before = 0, head = 0, tail = 0, start = 0, moved = 0, expires = s.expires, runs = '', log = s.log}, 0, 0, 0
    end
    local logged = s.tail - s.head
    local p = {before = up_to(s, first), head = 0, tail = 0, start = 0, moved = 0, expires = s.expires, runs = s.runs, log = s.log}
    if first == 0 then p.oldest = s.oldest end
    if first < logged then
      p.head, p.tail, p.start, p.moved = s.head + first, s.tail, s.start, s.moved
    elseif first > logged then
      p.runs = string.sub(s.runs, (first - logged) * 13 + 1)
    end
    return p, hits, newest, total
  end

  -- Moves the runs of a long log to its beginning, whose runs have left. Each step
  -- moves only some, so that none occupies Redis for long. Until all have moved,
  -- runs are read at their old positions. start is the number of the first run that
  -- moves, moved the number of runs that have.
  local function move_log(s, log)
    if s.start == 0 then s.start = s.head end
    local moved = math.min(math.max(s.moved, s.head - s.start), s.tail - s.start)
    local n = math.min(s.tail - s.start - moved, 256) -- runs that one step moves
    if moved + n > s.start then -- the log grew faster than it moved
      s.start, s.moved = 0, 0
      return
    end
    if n > 0 then
      local at = (s.start + moved) * 13
      redis.call('SETRANGE', log, moved * 13, redis.call('GETRANGE', log, at, at + n * 13 - 1))
    end
    s.moved = moved + n
    if s.start + s.moved == s.tail then
      s.head, s.tail, s.start, s.moved = s.head - s.start, s.moved, 0, 0
    end
  end

  -- Moves runs to the log if the value holds too many, and compacts the log.
  local function write_log(s, log, stored, now)
    local INLINE, FEW = 32, 1024 -- most runs in a value, and most that one step copies
    local had = stored and stored.tail > 0
    if s.tail == 0 and had then redis.call('DEL', log) end
    local logged = s.tail - s.head
    if s.start > 0 or logged > FEW and s.head > FEW + logged * 1.125 then
      move_log(s, log)
    elseif logged <= FEW and s.head > FEW then
      redis.call('SET', log, redis.call('GETRANGE', log, s.head * 13, s.tail * 13 - 1), 'KEEPTTL')
      s.head, s.tail = 0, s.tail - s.head
    end
    local runs = #s.runs / 13
    if runs > INLINE and log then
      local bytes = (runs - INLINE / 2) * 13
      if s.tail == 0 then
        s.expires = expiry(s.gone, now, linger)
        redis.call('SET', log, string.sub(s.runs, 1, bytes), 'PX', string.format('%.0f', s.expires - now))
      else
        redis.call('SETRANGE', log, s.tail * 13, string.sub(s.runs, 1, bytes))
      end
      s.tail, s.runs = s.tail + bytes / 13, string.sub(s.runs, bytes + 1)
    end
    if s.tail > 0 and s.gone > s.expires then
      s.expires = expiry(s.gone, now, linger)
      redis.call('PEXPIRE', log, string.format('%.0f', s.expires - now))
    end
  end

  -- Returns the state that is banned until an instant. Its body is empty.
  local function banned(till, log)
    return {before = 0, head = 0, tail = 0, start = 0, moved = 0, expires = 0, runs = '', log = log, gone = till, banned = till}
  end

  methods[LEAK] = {
    unused = {before = 0, head = 0, tail = 0, start = 0, moved = 0, expires = 0, runs = '', gone = 0},

    read = function(s, r, now)
      local limit, weight = r.count, r.need
      local banned_till = s.banned
      if banned_till and now < banned_till then return false, limit, 0, banned_till - now, banned_till - now, 0, 32 end
      local first, hits, newest = live(s, r, now)
      local admits, retry = weight <= limit - hits, -1
      if not admits and weight <= limit then
        local at = run(s, reaching(s, first, hits - (limit - weight)))
        retry = math.max(math.min(at, newest) + r.time - now, 1) -- valid even if another program wrote to the log
      end
      return admits, limit, hits < limit and limit - hits or 0, hits > 0 and newest + r.time - now or 0, retry, hits
    end,

    add = function(s, r, now)
      if s.banned and now < s.banned then return s end
      local p, hits, newest, total = pruned(s, r, now)
      local at = math.max(now, newest)
      local upto = forward(total, math.min(r.weight, 9007199254740991 - hits))
      -- A counter has 1024 runs beyond its limit at most, and any 2^24.
      if hits > 0 and (at == newest or length(p) >= math.min(r.count + 1024, 16777216)) then
        p.runs = string.sub(p.runs, 1, -14) -- the hits join the newest run
      end
      p.runs = p.runs .. struct.pack('>I6I7', at, upto)
      p.gone = at + r.time
      if #p.runs > 4096 * 13 then error('its log is not named') end -- most in a value whose log is not in KEYS
      return p
    end,

    decode = function(body, till, log, far)
      if body == '' then return banned(till, log) end
      local bytes = #body
      if bytes < 42 or (bytes - 29) % 13 ~= 0 then return nil end
      local before, head, tail, log_expires, start, moved = struct.unpack('>I7I4I4I6I4I4', body)
      if tail < head or head < start or start < moved then return nil end
      -- The newest run is before the counter's end, and numbers are below 2^53.
      local newest, total = struct.unpack('>I6I7', body, bytes - 12)
      if newest >= till or total >= 9007199254740992 or before >= 9007199254740992 then return nil end
      if tail > 0 and not log then error('its log is not named') end
      if tail > head then
        local size = redis.pcall('STRLEN', log)
        if type(size) == 'table' and not string.find(size.err, 'WRONGTYPE', 1, true) then error(size.err, 0) end
        if type(size) ~= 'number' or size < tail * 13 then return nil end
      end
      return {
        before = before, head = head, tail = tail, start = start, moved = moved,
        expires = log_expires < far and log_expires or 0, runs = string.sub(body, 30), gone = till, log = log,
      }
    end,

    encode = function(s, tag, log, stored, now)
      write_log(s, log, stored, now)
      if s.banned then
        return struct.pack('>I5I6I2', tag, s.gone, 0), s.gone
      end
      local head = struct.pack('>I5I6I2I7I4I4I6I4I4', tag, s.gone, 29 + #s.runs, s.before, s.head, s.tail, s.expires, s.start, s.moved)
      return head .. s.runs, s.gone
    end,
  }

  if rare then
    local leak = methods[LEAK]

    -- Returns the state with n more hits, or fewer if n is negative, in exactly the run of
    -- an instant: the newest may be another caller's. All numbers from there on change, so
    -- those runs are read out of the log. If there are more than far of them, none are taken,
    -- and more hits join the first of those.
    local function shift(s, r, now, instant, n, far)
      if s.banned or n == 0 then return s end
      local p, hits = pruned(s, r, now)
      local all = length(p)
      local i = after(p, 0, all, instant - 1)
      if hits == 0 or i >= all or run(p, i) ~= instant then return s end
      if all - i > far then
        if n < 0 then return s end
        i = all - far
      end
      local _, upto = run(p, i)
      local of_run = between(up_to(p, i), upto)
      n = math.min(math.max(n, -of_run), 9007199254740991 - hits)
      local runs, kept, logged = p.runs, {}, p.tail - p.head
      if i < logged then
        runs = redis.call('GETRANGE', p.log, (p.head + i) * 13, p.tail * 13 - 1) .. runs
        p.tail = p.head + i
      else
        kept[1] = string.sub(runs, 1, (i - logged) * 13)
        runs = string.sub(runs, (i - logged) * 13 + 1)
      end
      for from = n == -of_run and 13 + 1 or 1, #runs, 13 do
        local at, number = struct.unpack('>I6I7', runs, from)
        kept[#kept + 1] = struct.pack('>I6I7', at, n < 0 and (number + n) % 9007199254740992 or forward(number, n))
      end
      p.runs, p.oldest = table.concat(kept), nil
      all = length(p)
      if all > 0 then
        p.gone = run(p, all - 1) + r.time
        return p
      end
    end

    leak.ban = function(s, r, now)
      if s.banned and now < s.banned then return s end
      return banned(now + r.ban, s.log)
    end

    leak.refund = function(s, r, now)
      if s.banned then return s end
      local p, hits, newest_at = pruned(s, r, now)
      local left = hits - r.weight
      if left <= 0 then return nil end
      local last = reaching(p, 0, left)
      local at = math.min(run(p, last), newest_at)
      local newest = struct.pack('>I6I7', at, forward(p.before, left))
      local logged = p.tail - p.head
      if last >= logged then
        p.runs = string.sub(p.runs, 1, (last - logged) * 13) .. newest
      else
        p.tail, p.runs = p.head + last, newest
      end
      p.gone = at + r.time
      return p
    end

    leak.undo_record = function(_, s)
      local at = run(s, length(s) - 1)
      return 1, at, 0, 0
    end

    -- The run that is given back is among the newest 256, the run that is settled among 2048.
    leak.give_back = function(s, r, now, _, _, instant) return shift(s, r, now, instant, -r.weight, 256) end

    leak.mark = function(s, r)
      if r.weight == 0 then return 0, 0 end
      local at = run(s, length(s) - 1)
      return at, 0
    end

    leak.settle = function(s, r, now, hits, instant) return shift(s, r, now, instant, hits - r.weight, 2048) end
  end
end
