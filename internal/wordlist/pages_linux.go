package wordlist

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugeFrom is the size of a table from which huge pages are worth asking for, in
// bytes. A huge page has 2 MB.
const hugeFrom = 16 << 20

// adviseHugePages asks Linux to keep a new table in pages of 2 MB. In pages of 4 kB a
// look-up among millions of entries waits for memory twice: the processor caches
// the addresses of a few thousand pages and reads the other addresses from the page
// tables, in a virtual machine from the tables of the host, too. The kernel may ignore
// the advice, so the result of the call does not matter.
func adviseHugePages[T any](table []T) {
	var one T
	size := len(table) * int(unsafe.Sizeof(one))
	if size < hugeFrom {
		return
	}
	whole := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(table))), size) //nolint:gosec // madvise takes bytes, which are not accessed here
	page := unix.Getpagesize()
	begin := -int(uintptr(unsafe.Pointer(unsafe.SliceData(whole)))) & (page - 1) //nolint:gosec // the distance to the next page
	_ = unix.Madvise(whole[begin:size-(size-begin)%page], unix.MADV_HUGEPAGE)
}
