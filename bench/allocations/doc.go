// Package allocations tests the allocations per decision of every door and store
// against testdata/allocations.txt, which `go test ./bench/allocations -update`
// writes. It must run without the race detector, which allocates itself.
package allocations
