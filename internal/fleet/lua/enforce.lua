-- enforce.lua: brings a signed version into force that waits for that. ARGV after those of
-- shared.lua: its number, the sum of its record, and the signature with which it is in force.
-- It returns 1 if the version waited.
local n, sum, line = number(ARGV[3]), ARGV[4], ARGV[5]
local p = proposed()
if n == 0 or number(p[1]) ~= n or text(p[10]) ~= sum or p[12] ~= '1' or p[6] == 'trial' then
  return 0
end
judge(p, n, line)
return 1
