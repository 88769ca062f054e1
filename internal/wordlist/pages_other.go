//go:build !linux

package wordlist

// adviseHugePages does nothing: the other systems have no such advice.
func adviseHugePages[T any]([]T) {}
