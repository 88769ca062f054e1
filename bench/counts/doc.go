// Package counts tests what a call does that needs no clock to be measured, for each kind
// of traffic: commands of Redis, keys that change, bytes to and from Redis and in its log,
// goroutines that batches wake, and allocations. `go test ./bench/counts -update` writes testdata/counts.txt. It must run
// without the race detector, which allocates itself.
package counts
