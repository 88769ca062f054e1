package e2e

import "syscall"

// apart starts a program in a group of its own, which ^C in a terminal does not
// reach: Close ends programs in their order. If its parent is gone, the kernel
// ends it: a test that is killed leaves nothing running.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
