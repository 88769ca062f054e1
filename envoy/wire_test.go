package envoy_test

import (
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/koalagate/koalagate/envoy"
)

// wire opens a raw HTTP/2 connection.
func wire(t *testing.T, addr string) *http2.Framer {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return framer
}

func TestConnectionLimitsAreAnnounced(t *testing.T) {
	f := start(t, envoy.Options{MaxStreams: 7}, allow)
	frame, err := wire(t, f.addr).ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	settings, ok := frame.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("the first frame is %v; want SETTINGS", frame)
	}
	for id, want := range map[http2.SettingID]uint32{
		http2.SettingMaxConcurrentStreams: 7,
		http2.SettingMaxHeaderListSize:    64 << 10,
	} {
		if got, _ := settings.Value(id); got != want {
			t.Errorf("%v is %d; want %d", id, got, want)
		}
	}
}

func TestPingsBeyondTheMinimumTimeEndTheConnection(t *testing.T) {
	for name, test := range map[string]struct {
		minTime time.Duration
		ends    bool
	}{
		"too often":        {time.Hour, true},
		"as it is allowed": {time.Nanosecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, envoy.Options{KeepaliveMinTime: test.minTime}, allow)
			framer := wire(t, f.addr)
			const pings = 6
			for i := range pings {
				if err := framer.WritePing(false, [8]byte{byte(i)}); err != nil {
					break // it has ended
				}
			}
			for answered := 0; answered < pings; {
				frame, err := framer.ReadFrame()
				if err != nil {
					t.Fatalf("after %d answers: %v", answered, err)
				}
				switch frame := frame.(type) {
				case *http2.PingFrame:
					answered++
				case *http2.GoAwayFrame:
					if !test.ends || frame.ErrCode != http2.ErrCodeEnhanceYourCalm {
						t.Errorf("after %d answers: %v", answered, frame)
					}
					return
				}
			}
			if test.ends {
				t.Errorf("all %d pings were answered; want the connection ended", pings)
			}
		})
	}
}
