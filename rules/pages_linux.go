package rules

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugeFrom is the size of a table from which huge pages are worth it, in bytes:
// several of them, which have 2 MB each.
const hugeFrom = 16 << 20

// inHugePages asks Linux to keep a new table in pages of 2 MB where it can. A
// look-up among millions of entries waits for memory, and in pages of 4 kB twice:
// the processor knows the places of a few thousand of them and has to look that of
// most up, in a virtual machine by way of the host's tables too. It is advice: a
// kernel that keeps no huge pages, or none for those who ask, leaves all as it is.
func inHugePages[T any](table []T) {
	var one T
	size := len(table) * int(unsafe.Sizeof(one))
	if size < hugeFrom {
		return
	}
	whole := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(table))), size) //nolint:gosec // the table's own bytes, which nobody reads here
	page := unix.Getpagesize()
	begin := -int(uintptr(unsafe.Pointer(unsafe.SliceData(whole)))) & (page - 1) //nolint:gosec // how far the next page is
	_ = unix.Madvise(whole[begin:size-(size-begin)%page], unix.MADV_HUGEPAGE)
}
