package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/koalagate/koalagate/nginx"
)

// unixPackets is the network of sockets of datagrams in the file system.
const unixPackets = "unixgram"

// listenPackets opens host:port for UDP, or unix:/path for datagrams with the permissions
// of mode.
func listenPackets(ctx context.Context, address, mode string) (net.PacketConn, error) {
	var open net.ListenConfig
	path, isUnix := strings.CutPrefix(address, "unix:")
	if !isUnix {
		return open.ListenPacket(ctx, "udp", address)
	}
	conn, err := open.ListenPacket(ctx, unixPackets, path)
	if errors.Is(err, syscall.EADDRINUSE) && isAbandoned(ctx, unixPackets, path) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("removing the socket of an ended process: %w", err)
		}
		conn, err = open.ListenPacket(ctx, unixPackets, path)
	}
	if err != nil {
		return nil, err
	}
	if err := permitFile(path, mode); err != nil {
		closePackets(conn)
		return nil, err
	}
	return conn, nil
}

// closePackets closes a connection of listenPackets, and removes its file. It may be closed
// already.
func closePackets(conn net.PacketConn) {
	if conn.Close() == nil && conn.LocalAddr().Network() == unixPackets {
		_ = os.Remove(conn.LocalAddr().String()) // only an abandoned file would remain
	}
}

// packetAddress returns the address of a connection of listenPackets as the settings spell
// it, "" without one.
func packetAddress(conn net.PacketConn) string {
	switch {
	case conn == nil:
		return ""
	case conn.LocalAddr().Network() == unixPackets:
		return "unix:" + conn.LocalAddr().String()
	}
	return conn.LocalAddr().String()
}

// serveReports settles the reports about the ends of requests until their connection is
// closed.
func (s *Service) serveReports() error {
	reports := nginx.NewReports(nginx.ReportOptions{
		Engine: s.app.Engine(), TrustedProxies: prefixes(s.config.TrustedProxies), Dropped: s.metrics.ReportDropped, Logger: s.logger,
	})
	if err := reports.Serve(s.listeners.report); err != nil {
		return fmt.Errorf("reading reports on %s: %w", packetAddress(s.listeners.report), err)
	}
	return nil
}

// endReports stops reading reports. Reports that have arrived are settled.
func (s *Service) endReports() {
	if s.listeners.report != nil {
		closePackets(s.listeners.report)
	}
}
