// Package systemd reports the state of the service to systemd, for units of
// Type=notify (sd_notify).
package systemd

import (
	"fmt"
	"net"
	"time"

	"github.com/koalagate/koalagate/internal/env"
)

// The states that a service reports.
const (
	// Ready reports that the service answers at its addresses.
	Ready = "READY=1"
	// Stopping reports that the service has begun to end.
	Stopping = "STOPPING=1"
)

// socketVariable names the socket to report to; systemd sets it for units of
// Type=notify.
const socketVariable = "NOTIFY_SOCKET"

// timeout bounds a notification: systemd may be too busy to read it.
const timeout = time.Second

// Notify sends a state to the socket that the environment names, and does nothing
// without one. Environ contains entries NAME=value.
func Notify(environ []string, state string) error {
	path := env.Value(environ, socketVariable)
	if path == "" {
		return nil
	}
	// A name that begins with @ is in the abstract name space; net replaces the @.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notifying systemd: %w", err)
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(timeout)) // a socket that was just opened takes it
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("notifying systemd: %w", err)
	}
	return nil
}
