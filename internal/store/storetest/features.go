package storetest

// Feature is a set of parts of the contract that not every store has yet.
type Feature uint8

// The features.
const (
	Large  Feature = 1 << iota // thresholds and weights beyond 2^32, limits of 0
	Levels                     // a bucket keeps its level when its burst changes
	Units                      // calendar units and windows since the epoch
	Overdraft
	Ban
	Wait // and Canceler
)

// NotInRedis are the features that the stores in Redis do not have. Tests of these
// stores draw no rules that need them.
const NotInRedis Feature = 0
