package fleet

import (
	_ "embed"

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
	//go:embed lua/state.lua
	stateText string
	//go:embed lua/outcome.lua
	outcomeText string
	//go:embed lua/trial.lua
	trialText string
	//go:embed lua/history.lua
	historyText string
)

// The scripts, each one atomic step. See their texts for arguments and replies.
var (
	propose       = goredis.NewScript(sharedText + proposeText)
	beat          = goredis.NewScript(sharedText + judgeText + beatText)
	enforce       = goredis.NewScript(sharedText + judgeText + enforceText)
	listInstances = goredis.NewScript(sharedText + instancesText)
	readState     = goredis.NewScript(sharedText + stateText)
	readOutcome   = goredis.NewScript(sharedText + outcomeText)
	readTrial     = goredis.NewScript(sharedText + trialText)
	readHistory   = goredis.NewScript(sharedText + historyText)
	writeTally    = goredis.NewScript(sharedText + tallyText)
	stopTrial     = goredis.NewScript(sharedText + stopText)
	readPiece     = goredis.NewScript(pieceText)
	completeBlob  = goredis.NewScript(completeText)
)

// all returns the keys in the order of shared.lua.
func (k *keys) all() []string {
	return []string{k.head, k.proposal, k.answers, k.instances, k.beats, k.history, k.trial}
}

// arguments returns the arguments of a script, after the arguments of shared.lua.
func (k *keys) arguments(more ...any) []any {
	return append([]any{k.begin, spareTime.Milliseconds()}, more...)
}
