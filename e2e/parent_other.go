//go:build !linux

package e2e

import "syscall"

// apart starts a program in a group of its own, which ^C in a terminal does not
// reach: Close ends programs in their order.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// stopped takes a child to have stopped as soon as it was told to.
func stopped(int) error { return nil }
