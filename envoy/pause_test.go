package envoy

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// peerAt is a rawPeer with an address.
type peerAt struct {
	rawPeer
	address net.Addr
}

func (p *peerAt) RemoteAddr() net.Addr { return p.address }

// After a connection that exceeded the bound of SETTINGS frames, new ones of its address
// are read a second later; those of others, and those that are open, at once.
func TestFloodsOfSettingsPauseTheirPeer(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 4711} }
	for name, test := range map[string]struct {
		attacker, other net.Addr
		later           time.Duration
		want            time.Duration
	}{
		"the same address":                 {tcp("192.0.2.1"), tcp("192.0.2.1"), 0, pauseTime},
		"the same address, mapped to IPv6": {tcp("192.0.2.1"), &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1).To4()}, 0, pauseTime},
		"a little later":                   {tcp("192.0.2.1"), tcp("192.0.2.1"), pauseTime / 4, pauseTime * 3 / 4},
		"after the pause":                  {tcp("192.0.2.1"), tcp("192.0.2.1"), pauseTime, 0},
		"a neighbor":                       {tcp("192.0.2.1"), tcp("192.0.2.2"), 0, 0},
		"the same network of IPv6":         {tcp("2001:db8::1"), tcp("2001:db8::2"), 0, pauseTime},
		"another network of IPv6":          {tcp("2001:db8::1"), tcp("2001:db8:0:1::1"), 0, 0},
		"a Unix socket":                    {&net.UnixAddr{Name: "@"}, &net.UnixAddr{Name: "@"}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bounds []Bound
				o := withDefaults(Options{Exceeded: func(b Bound, _ net.Addr) { bounds = append(bounds, b) }})
				m := newMeter(&o)
				connect := func(address net.Addr) (*meteredConn, *peerAt) {
					p := &peerAt{address: address}
					p.frames.WriteString(http2.ClientPreface)
					return m.wrap(p, p), p
				}
				open, _ := connect(test.other)
				attacker, p := connect(test.attacker)
				frames := http2.NewFramer(&p.frames, nil)
				for range settingsBurst*o.MaxSettings + 1 {
					frames.WriteSettings()
				}
				b := make([]byte, 1<<16)
				if _, err := attacker.Read(b); err == nil || len(bounds) != 1 || bounds[0] != BoundSettings {
					t.Fatalf("%v, exceeded %v; want %s", err, bounds, BoundSettings)
				}
				time.Sleep(test.later)
				next, _ := connect(test.other)
				closed, _ := connect(test.other)
				read := func(conn *meteredConn, want time.Duration) {
					t.Helper()
					begin := time.Now()
					_, err := conn.Read(b)
					if waited := time.Since(begin); err != nil || waited != want {
						t.Errorf("a connection was read after %v, %v; want %v", waited, err, want)
					}
				}
				read(open, 0)
				read(next, test.want)
				closed.Close()
				begin := time.Now()
				closed.Read(b)
				if waited := time.Since(begin); waited != 0 {
					t.Errorf("a closed connection waits for %v", waited)
				}
			})
		})
	}
}
