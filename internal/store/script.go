package store

import _ "embed"

// The script's parts, by what they are about. They are one text: each uses what
// those before it define.
var (
	//go:embed lua/plan.lua
	luaPlan string
	//go:embed lua/several.lua
	luaSeveral string
	//go:embed lua/counts.lua
	luaCounts string
	//go:embed lua/windows.lua
	luaWindows string
	//go:embed lua/leak.lua
	luaLeak string
	//go:embed lua/token.lua
	luaToken string
	//go:embed lua/decide.lua
	luaDecide string
	//go:embed lua/carry.lua
	luaCarry string
	//go:embed lua/write.lua
	luaWrite string
)

// script is what Redis carries out, in one call: lua/plan.lua tells what it is
// given and what it answers.
var script = luaPlan + luaSeveral + luaCounts + luaWindows + luaLeak + luaToken + luaDecide + luaCarry + luaWrite
