package redis

import (
	_ "embed" // for the parts of the script
	"strings"
	"sync"
)

// The parts of the script, by subject. Together they are one text: each uses
// definitions of those before it. What lies between main.lua and write.lua runs only if a
// call needs it.
var (
	//go:embed lua/plan.lua
	luaPlan string
	//go:embed lua/main.lua
	luaMain string
	//go:embed lua/windows.lua
	luaWindows string
	//go:embed lua/leak.lua
	luaLeak string
	//go:embed lua/token.lua
	luaToken string
	//go:embed lua/hold.lua
	luaHold string
	//go:embed lua/receipts.lua
	luaReceipts string
	//go:embed lua/decide.lua
	luaDecide string
	//go:embed lua/lasting.lua
	luaLasting string
	//go:embed lua/lease.lua
	luaLease string
	//go:embed lua/shares.lua
	luaShares string
	//go:embed lua/assign.lua
	luaAssign string
	//go:embed lua/carry.lua
	luaCarry string
	//go:embed lua/write.lua
	luaWrite string
)

// script returns the script that Redis runs in one call: an instance without Redis makes none.
// lua/plan.lua describes its argument and its reply.
var script = sync.OnceValue(func() string {
	return luaPlan + luaMain + luaWindows + luaLeak + luaToken + luaHold + luaReceipts +
		luaDecide + luaLasting + luaLease + luaShares + luaAssign + luaCarry + luaWrite
})

// NeedsLog reports whether err is the error of a call that omits the log of a
// leak counter which has one.
func NeedsLog(err error) bool { return strings.Contains(err.Error(), "its log is not named") }
