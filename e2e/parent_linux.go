package e2e

import "syscall"

// endWithParent has the kernel end a program whose parent is gone: a test that
// is killed leaves nothing running.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
