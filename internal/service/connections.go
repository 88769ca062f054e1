package service

import (
	"net"
	"syscall"

	"github.com/koalagate/koalagate/internal/config"
)

// maxReserve is the maximum number of descriptors that connections leave to the rest of
// the process: the pool of Redis, which has ten connections per processor and node,
// rule files, logs and listeners.
const maxReserve = 512

// connectionLimits are the maximum numbers of connections of the three addresses.
type connectionLimits struct{ grpc, http, admin int }

// limitConnections returns the configured limits, lowered so that connections leave a
// reserve of the descriptors: three quarters of them, at most maxReserve. The gRPC and the
// HTTP address each get half of the rest, and the part of the other half that the other
// address does not need.
func limitConnections(c *config.Config, descriptors int) connectionLimits {
	available := descriptors - min(descriptors*3/4, maxReserve)
	admin := max(1, min(c.AdminMaxConnections, available/8))
	rest := available - admin
	return connectionLimits{
		grpc:  max(1, min(c.GRPCMaxConnections, max(rest/2, rest-c.HTTPMaxConnections))),
		http:  max(1, min(c.HTTPMaxConnections, max(rest/2, rest-c.GRPCMaxConnections))),
		admin: admin,
	}
}

// maxDescriptors returns the number of files that the process may open. Go has raised
// the soft limit to the hard one.
func maxDescriptors() int {
	const unknown = 1024
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return unknown
	}
	return int(min(limit.Cur, 1<<30))
}

// limitListeners bounds the connections of the three addresses, and returns the limits.
func (s *Service) limitListeners() connectionLimits {
	files := maxDescriptors()
	limits := limitConnections(s.config, files)
	if limits.grpc < s.config.GRPCMaxConnections || limits.http < s.config.HTTPMaxConnections {
		s.logger.Info("the limit of open files lowers the limits of connections", "files", files,
			"grpc", limits.grpc, "http", limits.http, "admin", limits.admin, "remedy", raiseFiles)
	}
	c := s.config
	for _, one := range []struct {
		listener *net.Listener
		limit    listenerLimit
	}{
		{&s.listeners.grpc, listenerLimit{limits.grpc, boundGRPCConnections, c.GRPCMaxConnectionsPerPeer, boundGRPCPeer}},
		{&s.listeners.http, listenerLimit{limits.http, boundHTTPConnections, c.HTTPMaxConnectionsPerPeer, boundHTTPPeer}},
		{&s.listeners.admin, listenerLimit{limits.admin, boundAdminConnections, limits.admin, boundAdminConnections}},
	} {
		*one.listener = newLimitedListener(*one.listener, one.limit, s.bounds.exceeded)
	}
	return limits
}
