package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// timedOut tells whether a call got no answer in time.
func timedOut(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &network) && network.Timeout()
}

const deniedRemedy = "its user may not do what counting needs: grant the missing command or the keys of redis_prefix (ACL SETUSER, docs/redis.md)"

// unable are the replies of a Redis that cannot count for anyone now, each
// with what to do about it.
var unable = []struct{ prefix, remedy string }{
	{"LOADING", "it is reading its data, and will answer when it has"},
	{"READONLY", "it is a replica, which cannot count: name its master, or have Sentinel name it"},
	{"MASTERDOWN", "it is a replica that has lost its master: look at the master, or name it"},
	{"NOREPLICAS", "it has fewer replicas than its min-replicas-to-write: mend them, or lower the setting"},
	{"CLUSTERDOWN", "the cluster does not serve all its slots: look at CLUSTER INFO and at its nodes"},
	{"TRYAGAIN", "a slot is on its way between two nodes, and will have arrived soon"},
	{"NOAUTH", "it wants a password: set redis_password_file, or a user and password in redis"},
	{"WRONGPASS", "the user or password is wrong: correct redis_password_file or redis, or the user in Redis (ACL LIST)"},
	{"NOPERM", deniedRemedy},
	{"OOM", "it has reached maxmemory: raise it, or make room"},
	{"MISCONF", "it cannot save its data and refuses writes: look at its log and at its disk"},
	{"BUSY", "a script of somebody else's holds it: SCRIPT KILL ends one"},
	{"max number of clients reached", "it has no connection left: raise maxclients, or close those of others"},
}

// unableWith is what to do about a Redis that cannot count for anyone; "" where
// err does not say that.
func unableWith(err error) string {
	for _, one := range unable {
		if redis.HasErrorPrefix(err, one.prefix) {
			return one.remedy
		}
		// Redis 6.2 wraps what a command within the script was refused with.
		if text := err.Error(); strings.Contains(text, "running script") && strings.Contains(text, one.prefix+" ") {
			return one.remedy
		}
	}
	return ""
}

// denied tells whether the user may not do what the script does. Redis 7.0 and
// 6.2 have other words for it within a script than NOPERM, and newer ones others.
func denied(err error) bool {
	text := err.Error()
	for _, words := range []string{"NOPERM", "can't run this command", "can't access at least one of the keys", "ACL failure in script"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// gone tells whether the connection or Redis itself is of no use.
func gone(err error) bool {
	if denied(err) {
		return true
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		return unableWith(err) != ""
	}
	var network *net.OpError
	return errors.As(err, &network) || cut(err) || errors.Is(err, redis.ErrClosed) || untrusted(err)
}

// cut tells whether a connection ended before its reply did.
func cut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// untrusted tells whether TLS did not come about.
func untrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var authority x509.UnknownAuthorityError
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &authority)
}

// Remedy is what an operator is to do about a Redis that was found away with
// err, in a few words for the log; "" where there is nothing to say.
func Remedy(err error) string {
	var reply redis.Error
	var dns *net.DNSError
	var handshake *handshakeError
	switch {
	case err == nil:
		return ""
	case denied(err):
		return deniedRemedy
	case Misplaced(err) != nil:
		return "correct the database in redis"
	case errors.As(err, &reply):
		if remedy := unableWith(err); remedy != "" {
			return remedy
		}
		return "it answers, but does not carry out the script: is it Redis 6.2 or newer, with EVALSHA, TIME, GET and SET allowed?"
	case errors.Is(err, errWaiting):
		return "more is asked of it than it answers: look at its load and its SLOWLOG, or spread the counters over a Cluster"
	case errors.As(err, &dns):
		return "its name is not found: correct redis, or look at the DNS"
	case untrusted(err), errors.As(err, &handshake):
		return "TLS does not come about: does it speak TLS there, is its name that of its certificate, and does the system or redis_tls_ca trust that?"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		return "nothing listens there: start it, or correct redis"
	case errors.Is(err, os.ErrPermission):
		return "the socket may not be opened: look at its permissions (unixsocketperm)"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no way to it: look at the network"
	case cut(err):
		return "the connection was cut: did it end, does a proxy in between cut it, or does it want TLS (rediss://)?"
	case timedOut(err):
		return "it does not answer in time: look at its SLOWLOG, its load and the network, or raise redis_budget"
	}
	return ""
}
