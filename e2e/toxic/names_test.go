package toxic

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/rescue"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// The behaviors of a name server.
const (
	answers = int32(iota)
	denies  // NXDOMAIN
	fails   // SERVFAIL
	ignores
)

// nameServer resolves every name to this machine, or fails as its mode says.
type nameServer struct {
	conn net.PacketConn
	mode atomic.Int32
}

// startNameServer starts a name server and makes this process use it.
func startNameServer(t *testing.T) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{conn: conn}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.serve()
	}()
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = conn.Close() // which ends serve
		<-ended
	})
	return s
}

func (s *nameServer) serve() {
	buffer := make([]byte, 512)
	for {
		n, from, err := s.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		if reply := s.reply(buffer[:n]); reply != nil {
			_, _ = s.conn.WriteTo(reply, from) // the resolver retries if it is lost
		}
	}
}

// reply returns the reply to a question, or nil for none.
func (s *nameServer) reply(question []byte) []byte {
	var m dnsmessage.Message
	mode := s.mode.Load()
	if err := m.Unpack(question); err != nil || len(m.Questions) != 1 || mode == ignores {
		return nil
	}
	m.Response, m.Additionals = true, nil
	switch q := m.Questions[0]; {
	case mode == denies:
		m.RCode = dnsmessage.RCodeNameError
	case mode == fails:
		m.RCode = dnsmessage.RCodeServerFailure
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	reply, err := m.Pack()
	if err != nil {
		return nil
	}
	return reply
}

// Connections survive a failing name server. New connections fail with the reason,
// and succeed when the name resolves again.
func TestNameServerFailsUnderLoad(t *testing.T) {
	for name, mode := range map[string]int32{"no such name": denies, "a failing server": fails, "a silent server": ignores} {
		t.Run(name, func(t *testing.T) {
			names := startNameServer(t)
			s := newScene(t)
			_, port, err := net.SplitHostPort(s.redis.Address)
			if err != nil {
				t.Fatal(err)
			}
			options := redis.Options{URL: "redis://redis.koalagate.test:" + port, Budget: 2 * time.Second}
			r := storetest.OpenRescue(t, options, rescue.Options{})
			o := observedStore{directStore{r}, r}
			// Consecutive calls use the connection of the first.
			for i := range 50 {
				a, err := o.take(context.Background(), request{fmt.Sprintf("before-%d", i), noLimit})
				if err != nil || a.degraded || o.degraded() {
					t.Fatalf("call %d has no answer of Redis, %v: an existing connection was closed, %v", i, err, r.State().Err)
				}
				names.mode.Store(mode)
			}
			l := newLoad(o, 2*time.Second)
			defer l.stop()
			for begin := time.Now(); l.admitted.Load() < limit; time.Sleep(time.Millisecond) {
				if time.Since(begin) > patience {
					t.Fatalf("%d were admitted within %v; want the limit of %d", l.admitted.Load(), patience, limit)
				}
			}
			if err := s.redis.Kill(); err != nil {
				t.Fatal(err)
			}
			waitUntil(t, o, true)
			if s.redis, err = s.stage.RestartRedis(s.redis); err != nil {
				t.Fatal(err)
			}
			for begin := time.Now(); !strings.Contains(redisconn.Remedy(r.State().Err), "its name is not found"); time.Sleep(time.Millisecond) {
				if time.Since(begin) > patience {
					t.Fatalf("%v: the remedy is %q", r.State().Err, redisconn.Remedy(r.State().Err))
				}
			}
			names.mode.Store(answers)
			t.Logf("in use again %v after the name resolved", waitUntil(t, o, false).Round(time.Millisecond))
			l.stop()
			(&fault{forgets: true}).judge(t, l, 1)
			countsAgain(t, o)
		})
	}
}
