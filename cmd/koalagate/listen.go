package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/koalagate/koalagate/internal/config"
)

// listeners are the three addresses that the service is called at.
type listeners struct{ grpc, http, admin net.Listener }

// listenAll opens the addresses, or none of them.
func listenAll(ctx context.Context, c *config.Config) (*listeners, error) {
	l := &listeners{}
	for _, one := range []struct {
		key, address string
		listener     *net.Listener
	}{{"grpc_addr", c.GRPCAddr, &l.grpc}, {"http_addr", c.HTTPAddr, &l.http}, {"admin_addr", c.AdminAddr, &l.admin}} {
		opened, err := listen(ctx, one.address)
		*one.listener = opened
		if err == nil {
			err = permit(opened, c.UnixSocketMode)
		}
		if err != nil {
			l.close()
			return nil, fmt.Errorf("%s: %w%s", one.key, err, listenRemedy(err))
		}
	}
	return l, nil
}

// listenRemedy says what to do about an address that cannot be listened at, ""
// where the error says it all.
func listenRemedy(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "; another program listens there, another koalagate perhaps: end it, or choose another address"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "; want an address of this machine, or :PORT for all of them"
	}
	return ""
}

// close closes what is open. A server may have done so before.
func (l *listeners) close() {
	for _, one := range []net.Listener{l.grpc, l.http, l.admin} {
		if one != nil {
			_ = one.Close()
		}
	}
}

// listen opens host:port, or unix:/path.
func listen(ctx context.Context, address string) (net.Listener, error) {
	var open net.ListenConfig
	path, isUnix := strings.CutPrefix(address, "unix:")
	if !isUnix {
		return open.Listen(ctx, "tcp", address)
	}
	l, err := open.Listen(ctx, "unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && isAbandoned(ctx, path) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("removing the socket of a process that has ended: %w", err)
		}
		return open.Listen(ctx, "unix", path)
	}
	return l, err
}

// permit gives a unix socket its permissions, which the configuration has
// checked. Until then they are what the umask leaves, which lets nobody else in.
func permit(l net.Listener, mode string) error {
	if l.Addr().Network() != "unix" {
		return nil
	}
	bits, err := strconv.ParseUint(mode, 8, 16)
	if err != nil {
		return fmt.Errorf("unix_socket_mode: %w", err)
	}
	return os.Chmod(l.Addr().String(), os.FileMode(bits))
}

// isAbandoned tells whether path is a socket that nobody listens at: its
// process was killed before it could remove it.
func isAbandoned(ctx context.Context, path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return false
	}
	call := net.Dialer{Timeout: time.Second}
	conn, err := call.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// isLocal tells whether only this machine reaches a listener.
func isLocal(l net.Listener) bool {
	if l.Addr().Network() == "unix" {
		return true
	}
	address, err := netip.ParseAddrPort(l.Addr().String())
	return err == nil && address.Addr().Unmap().IsLoopback()
}

// addressOf is a listener's address as the configuration would say it.
func addressOf(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	return l.Addr().String()
}
