package fleet

import (
	_ "embed"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/shared.lua
	sharedText string
	//go:embed lua/judge.lua
	judgeText string
	//go:embed lua/enforce.lua
	enforceText string
	//go:embed lua/propose.lua
	proposeText string
	//go:embed lua/beat.lua
	beatText string
	//go:embed lua/complete.lua
	completeText string
	//go:embed lua/piece.lua
	pieceText string
	//go:embed lua/tally.lua
	tallyText string
	//go:embed lua/stop.lua
	stopText string
	//go:embed lua/instances.lua
	instancesText string
	//go:embed lua/dismiss.lua
	dismissText string
	//go:embed lua/state.lua
	stateText string
	//go:embed lua/outcome.lua
	outcomeText string
	//go:embed lua/trial.lua
	trialText string
	//go:embed lua/history.lua
	historyText string
)

// The scripts, each one atomic step, made when they are first run: most instances run few of them.
// See their texts for arguments and replies.
var (
	propose       = scriptOf(sharedText, proposeText)
	beat          = scriptOf(sharedText, judgeText, beatText)
	enforce       = scriptOf(sharedText, judgeText, enforceText)
	listInstances = scriptOf(sharedText, instancesText)
	dismiss       = scriptOf(sharedText, dismissText)
	readState     = scriptOf(sharedText, stateText)
	readOutcome   = scriptOf(sharedText, outcomeText)
	readTrial     = scriptOf(sharedText, trialText)
	readHistory   = scriptOf(sharedText, historyText)
	writeTally    = scriptOf(sharedText, tallyText)
	stopTrial     = scriptOf(sharedText, stopText)
	readPiece     = scriptOf(pieceText)
	completeBlob  = scriptOf(completeText)
)

// scriptOf returns a function that returns the script whose text is the texts together.
func scriptOf(texts ...string) func() *goredis.Script {
	return sync.OnceValue(func() *goredis.Script { return goredis.NewScript(strings.Join(texts, "")) })
}

// all returns the keys in the order of shared.lua.
func (k *keys) all() []string {
	return []string{k.head, k.proposal, k.answers, k.instances, k.beats, k.history, k.trial}
}

// arguments returns the arguments of a script, after the arguments of shared.lua.
func (k *keys) arguments(more ...any) []any {
	return append([]any{k.begin, spareTime.Milliseconds()}, more...)
}
