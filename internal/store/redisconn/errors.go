package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	goredis "github.com/redis/go-redis/v9"
)

// ErrQueueFull is the error of a call that was not sent because too many calls
// were waiting. It wraps ErrUnsent: hits that an instance admits instead are owed to Redis.
var ErrQueueFull = fmt.Errorf("redis: too many calls are waiting: %w", ErrUnsent)

// ErrStarved is wrapped by the error of a call whose time passed in this process,
// for lack of CPU or because too many calls waited, while Redis was well.
var ErrStarved = errors.New("redis: this instance is short of CPU")

// ErrUnsent is wrapped by the error of a call that was certainly not sent.
var ErrUnsent = errors.New("the call was not sent")

// TimedOut reports whether a call failed because its time ended.
func TimedOut(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, goredis.ErrPoolTimeout) || errors.As(err, &network) && network.Timeout()
}

const deniedRemedy = "its user lacks a permission that counting needs: grant the missing command or the keys of redis_prefix (ACL SETUSER, docs/redis.md)"

// unable are the replies of a Redis that currently cannot count for any client,
// with the remedy for each.
var unable = []struct{ prefix, remedy string }{
	{"LOADING", "it is reading its data, and will answer afterwards"},
	{"READONLY", "it is a replica, which cannot count: name its master, or use the Sentinels that name it"},
	{"MASTERDOWN", "it is a replica that has lost its master: check the master, or name the new one"},
	{"NOREPLICAS", "it has fewer replicas than its min-replicas-to-write: repair them, or lower the setting"},
	{"CLUSTERDOWN", "the cluster does not serve all its slots: check CLUSTER INFO and its nodes"},
	{"TRYAGAIN", "a slot is moving between two nodes, and will arrive soon"},
	{"NOAUTH", "it wants a password: set redis_password_file, or a user and password in redis"},
	{"WRONGPASS", "wrong user or password: correct redis_password_file or redis, or the user in Redis (ACL LIST)"},
	{"NOPERM", deniedRemedy},
	{"OOM", "it has reached maxmemory: raise it, or free memory"},
	{"MISCONF", "it cannot save its data and refuses writes: check its log and its disk"},
	{"BUSY", "a script of another client blocks it: SCRIPT KILL ends one"},
	{"max number of clients reached", "it has no connection left: raise maxclients, or close connections of other clients"},
}

// unableRemedy returns the remedy for a Redis that cannot count for any client;
// "" if err does not mean that.
func unableRemedy(err error) string {
	for _, one := range unable {
		if goredis.HasErrorPrefix(err, one.prefix) {
			return one.remedy
		}
		// Redis 6.2 wraps the error of a command within the script.
		if text := err.Error(); strings.Contains(text, "running script") && strings.Contains(text, one.prefix+" ") {
			return one.remedy
		}
	}
	return ""
}

// denied reports whether the user lacks a permission for something that the
// script does. Within a script Redis 6.2, 7.0 and newer versions each word it
// differently from NOPERM.
func denied(err error) bool {
	text := err.Error()
	for _, words := range []string{"NOPERM", "can't run this command", "can't access at least one of the keys", "ACL failure in script"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// Unreachable reports whether err means that the connection failed or that
// Redis cannot count for any client.
func Unreachable(err error) bool {
	if denied(err) {
		return true
	}
	if LacksFiles(err) {
		return false
	}
	var reply goredis.Error
	if errors.As(err, &reply) {
		return unableRemedy(err) != ""
	}
	var network *net.OpError
	return errors.As(err, &network) || cut(err) || errors.Is(err, goredis.ErrClosed) || untrusted(err)
}

// LacksFiles reports whether a connection failed because this process or its system has
// no free file or memory for it, which shows nothing about Redis.
func LacksFiles(err error) bool {
	for _, own := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}

// cut reports whether a connection ended before its reply did.
func cut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// untrusted reports whether TLS could not be established.
func untrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var authority x509.UnknownAuthorityError
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &authority)
}

// Remedy returns what an operator should do about an error of Redis, in a few
// words for the log; "" if there is no advice.
func Remedy(err error) string {
	var reply goredis.Error
	var dns *net.DNSError
	var handshake *handshakeError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrStarved):
		return "this instance is short of CPU: give it more, add instances, or let callers wait longer"
	case denied(err):
		return deniedRemedy
	case Misplaced(err) != nil:
		return "correct the database in redis"
	case errors.As(err, &reply):
		if remedy := unableRemedy(err); remedy != "" {
			return remedy
		}
		return "it answers, but does not run the script: is it Redis 6.2 or newer, with EVALSHA, TIME, GET and SET allowed?"
	case errors.Is(err, ErrQueueFull):
		return "it receives more calls than it answers: check its load and its SLOWLOG, or spread the counters over a Cluster"
	case errors.As(err, &dns):
		return "its name is not found: correct redis, or check the DNS"
	case untrusted(err), errors.As(err, &handshake):
		return "the TLS handshake failed: does it speak TLS there, does its certificate have that name, and does the system or redis_tls_ca trust it?"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		return "nothing listens there: start it, or correct redis"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "the process has no free file: raise the limit of open files (ulimit -n, LimitNOFILE)"
	case errors.Is(err, os.ErrPermission):
		return "permission denied for the socket: check its permissions (unixsocketperm)"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to it: check the network"
	case cut(err):
		return "the connection was cut: did it stop, does a proxy in between cut it, or does it require TLS (rediss://)?"
	case TimedOut(err):
		return "it does not answer in time: check its SLOWLOG, its load and the network, or raise redis_budget"
	}
	return ""
}
