package e2e

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup starts a program in its own process group, which ^C in a terminal does
// not reach, because Close stops programs in order. If its parent exits, the
// kernel stops it, so that a killed test leaves no program running.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// stopped waits until every thread of a child has stopped: on a busy machine some
// still run, and answer, after SIGSTOP was sent.
func stopped(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EINTR):
			return fmt.Errorf("waiting for process %d to stop: %w", pid, err)
		}
	}
}
