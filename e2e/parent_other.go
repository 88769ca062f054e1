//go:build !linux

package e2e

import "syscall"

// endWithParent is for Linux alone; elsewhere Close ends the programs.
func endWithParent() *syscall.SysProcAttr { return nil }
