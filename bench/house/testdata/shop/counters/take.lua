-- A comment
--[[ and one
of two lines ]]
local n = 1

return n -- taken
