package service

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

// listeners are the listeners of the three addresses.
type listeners struct {
	grpc, http, admin net.Listener
	report            net.PacketConn // nil without report_addr
}

// listenAll opens all addresses, or none and returns an error. If shared is true, other
// processes may listen at the same ports.
func listenAll(ctx context.Context, c *config.Config, shared bool) (*listeners, error) {
	l := &listeners{}
	for _, one := range []struct {
		key, address string
		listener     *net.Listener
	}{{"grpc_addr", c.GRPCAddr, &l.grpc}, {"http_addr", c.HTTPAddr, &l.http}, {"admin_addr", c.AdminAddr, &l.admin}} {
		opened, err := listen(ctx, one.address, shared)
		*one.listener = opened
		if err == nil {
			err = permit(opened, c.UnixSocketMode)
		}
		if err != nil {
			l.close()
			return nil, fmt.Errorf("%s: %w%s", one.key, err, listenRemedy(err))
		}
	}
	if c.ReportAddr != "" {
		report, err := listenPackets(ctx, c.ReportAddr, c.UnixSocketMode)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("report_addr: %w%s", err, listenRemedy(err))
		}
		l.report = report
	}
	return l, nil
}

// listenRemedy returns what to do about an error of listening, or "".
func listenRemedy(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "; another program listens there, perhaps another koalagate: stop it, or use another address"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "; want an address of this machine, or :PORT for all of them"
	case errors.Is(err, syscall.EACCES):
		return "; a port below 1024 needs CAP_NET_BIND_SERVICE, and a Unix socket a folder that the service may write: permit it, or use another address"
	case errors.Is(err, syscall.ENOENT):
		return "; create the folder of the Unix socket, or correct the path"
	case isOutOfFiles(err):
		return "; " + raiseFiles
	}
	return ""
}

// close closes the listeners. Servers may have closed some already.
func (l *listeners) close() {
	for _, one := range []net.Listener{l.grpc, l.http, l.admin} {
		if one != nil {
			_ = one.Close()
		}
	}
	if l.report != nil {
		closePackets(l.report)
	}
}

// listen opens host:port, whose port other processes may share if shared is true, or
// unix:/path.
func listen(ctx context.Context, address string, shared bool) (net.Listener, error) {
	var open net.ListenConfig
	if shared {
		open.Control = sharePort
	}
	path, isUnix := strings.CutPrefix(address, "unix:")
	if !isUnix {
		l, err := open.Listen(ctx, "tcp", address)
		if tcp, isTCP := l.(*net.TCPListener); isTCP {
			return &gentleListener{TCPListener: tcp, maxWait: maxQueueTime}, err
		}
		return l, err
	}
	open.Control = nil // sockets in the file system have no port
	l, err := open.Listen(ctx, "unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && isAbandoned(ctx, "unix", path) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("removing the socket of an ended process: %w", err)
		}
		l, err = open.Listen(ctx, "unix", path)
	}
	if socket, isUnix := l.(*net.UnixListener); isUnix {
		return newGentleUnixListener(socket), err
	}
	return l, err
}

// permit sets the permissions of a unix socket, which package config has checked.
// Until then the umask applies, which keeps other users out.
func permit(l net.Listener, mode string) error {
	if l.Addr().Network() != "unix" {
		return nil
	}
	return permitFile(l.Addr().String(), mode)
}

func permitFile(path, mode string) error {
	bits, err := strconv.ParseUint(mode, 8, 16)
	if err != nil {
		return fmt.Errorf("unix_socket_mode: %w", err)
	}
	return os.Chmod(path, os.FileMode(bits))
}

// isAbandoned reports whether path is a socket of a network without a listener, because
// its process was killed before it could remove it.
func isAbandoned(ctx context.Context, network, path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return false
	}
	call := net.Dialer{Timeout: time.Second}
	conn, err := call.DialContext(ctx, network, path)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// isLocal reports whether a listener is reachable from this machine only.
func isLocal(l net.Listener) bool {
	if l.Addr().Network() == "unix" {
		return true
	}
	address, err := netip.ParseAddrPort(l.Addr().String())
	return err == nil && address.Addr().Unmap().IsLoopback()
}

// addressOf returns the address of a listener as the settings spell it.
func addressOf(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	return l.Addr().String()
}
