//go:build !linux

package e2e

import "syscall"

// ownGroup starts a program in its own process group, which ^C in a terminal does
// not reach, because Close stops programs in order.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// stopped assumes that a child stops at once.
func stopped(int) error { return nil }
