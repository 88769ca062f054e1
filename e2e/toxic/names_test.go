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

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// What a name server may do.
const (
	answers = int32(iota)
	denies  // there is no such name
	fails   // SERVFAIL
	ignores
)

// nameServer tells that every name is this machine's, or does worse.
type nameServer struct {
	conn net.PacketConn
	mood atomic.Int32
}

// startNameServer has this process ask a name server of its own.
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
			_, _ = s.conn.WriteTo(reply, from) // who does not get it asks again
		}
	}
}

// reply is what is said to a question, nil for nothing.
func (s *nameServer) reply(question []byte) []byte {
	var m dnsmessage.Message
	mood := s.mood.Load()
	if err := m.Unpack(question); err != nil || len(m.Questions) != 1 || mood == ignores {
		return nil
	}
	m.Response, m.Additionals = true, nil
	switch q := m.Questions[0]; {
	case mood == denies:
		m.RCode = dnsmessage.RCodeNameError
	case mood == fails:
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

// Connections outlive a name server that fails. What is new does without Redis,
// is told why, and finds it when its name is found again.
func TestNamesThatAreNotFoundUnderLoad(t *testing.T) {
	for name, mood := range map[string]int32{"no such name": denies, "a server that fails": fails, "a server that says nothing": ignores} {
		t.Run(name, func(t *testing.T) {
			names := startNameServer(t)
			s := newScene(t)
			_, port, err := net.SplitHostPort(s.redis.Address)
			if err != nil {
				t.Fatal(err)
			}
			options := store.RedisOptions{URL: "redis://redis.koalagate.test:" + port, Budget: 2 * time.Second}
			r := storetest.OpenRescue(t, options, store.RescueOptions{})
			o := observedStore{theStore{r}, r}
			// One call after the other has the connection of the first.
			for i := range 50 {
				a, err := o.ask(context.Background(), asked{fmt.Sprintf("before-%d", i), noLimit})
				if err != nil || a.degraded || o.degraded() {
					t.Fatalf("call %d has no answer of Redis, %v: a connection that was there was given up, %v", i, err, r.State().Err)
				}
				names.mood.Store(mood)
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
			until(t, o, true)
			if s.redis, err = s.stage.RestartRedis(s.redis); err != nil {
				t.Fatal(err)
			}
			for begin := time.Now(); !strings.Contains(store.Remedy(r.State().Err), "its name is not found"); time.Sleep(time.Millisecond) {
				if time.Since(begin) > patience {
					t.Fatalf("%v: the remedy is %q", r.State().Err, store.Remedy(r.State().Err))
				}
			}
			names.mood.Store(answers)
			t.Logf("in use again %v after the name was found", until(t, o, false).Round(time.Millisecond))
			l.stop()
			(&fault{forgets: true}).judge(t, l, 1)
			countsAgain(t, o)
		})
	}
}
