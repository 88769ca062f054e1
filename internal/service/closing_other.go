//go:build !linux

package service

import "errors"

// isQueueEmpty reports true: other systems do not show the queue of a socket.
func isQueueEmpty(uintptr) bool { return true }

func endListening(uintptr) bool { return false }

func acceptQueued(uintptr) (int, error) { return -1, errors.ErrUnsupported }
