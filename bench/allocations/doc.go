// Package allocations holds every door and store to the allocations that a
// decision was measured to take: its test compares them with those of
// testdata/allocations.txt, which `go test ./bench/allocations -update` writes.
// It runs without the race detector, which allocates on its own.
package allocations
