package nginx

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

const (
	syslog  = "<190>Nov 23 02:28:01 koala: "
	receipt = "rabcdefghijklmnopqrstuvwxyz"
)

func TestReportsAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want string // "" for a datagram that is dropped
	}{
		"all fields":                 {syslog + "status=200 hits=600 receipt=" + receipt, "200 600"},
		"with a host":                {"<190>Nov 23 02:28:01 web1 nginx: receipt=" + receipt + " status=401", "401 none"},
		"a newline at the end":       {syslog + "status=200 receipt=" + receipt + "\n", "200 none"},
		"only the receipt":           {syslog + "receipt=" + receipt, " none"},
		"absent values":              {syslog + "status=- hits=- receipt=" + receipt, " none"},
		"large hits":                 {syslog + "status=200 hits=2e+09 receipt=" + receipt, "200 2000000000"},
		"hits that are no number":    {syslog + "status=200 hits=junk receipt=" + receipt, "200 none"},
		"negative hits":              {syslog + "status=200 hits=-5 receipt=" + receipt, "200 none"},
		"too many hits":              {syslog + "status=200 hits=1000000000000001 receipt=" + receipt, "200 none"},
		"a parameter":                {syslog + "status=200 response.price=7 receipt=" + receipt, "200 none"},
		"no receipt":                 {syslog + "status=200 hits=600", ""},
		"an absent receipt":          {syslog + "status=200 hits=600 receipt=-", ""},
		"a malformed receipt":        {syslog + "status=200 receipt=abc/def", ""},
		"a receipt that is too long": {syslog + "receipt=" + strings.Repeat("a", 121), ""},
		"a value with a blank":       {syslog + "status=200 hits=6 00 receipt=" + receipt, ""},
		"a value with a field":       {syslog + "hits=0 status=200 status=401 receipt=" + receipt, ""},
		"two receipts":               {syslog + "receipt=" + receipt + " receipt=" + receipt, ""},
		"an unknown field":           {syslog + "stats=200 receipt=" + receipt, ""},
		"two blanks":                 {syslog + "status=200  receipt=" + receipt, ""},
		"cut before the receipt":     {syslog + "status=200 hits=60", ""},
		"cut in the header":          {"<190>Nov 23 02:28", ""},
		"no priority":                {"koala: receipt=" + receipt, ""},
		"empty":                      {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if s, ok := readReport([]byte(c.line)); ok {
				status, _ := s.Response.Get("response.status")
				got = status + " none"
				if s.HasHits {
					got = fmt.Sprintf("%s %d", status, s.Hits)
				}
			}
			if got != c.want {
				t.Errorf("%q: %q; want %q", c.line, got, c.want)
			}
		})
	}
}

// FuzzReadReport checks that what is read from any datagram is a settlement that the engine
// accepts.
func FuzzReadReport(f *testing.F) {
	f.Add([]byte(syslog + "status=200 hits=600 receipt=" + receipt))
	f.Add([]byte(syslog + "status=200 hits=2e+09 response.a=b receipt=" + receipt))
	f.Add([]byte("<190>: receipt=a receipt=b"))
	f.Fuzz(func(t *testing.T, datagram []byte) {
		s, ok := readReport(datagram)
		if !ok {
			return
		}
		if !engine.ValidReceipt(s.Receipt) || s.HasHits && s.Hits > engine.MaxHits {
			t.Errorf("%q is read as %+v", datagram, s)
		}
		for _, p := range s.Response.List() {
			if !strings.HasPrefix(p.Name, "response.") || strings.Contains(p.Value, " ") {
				t.Errorf("%q states %q = %q", datagram, p.Name, p.Value)
			}
		}
	})
}

// strangers is a connection whose datagrams come from a stated peer.
type strangers struct {
	net.PacketConn
	peer net.Addr
}

func (s strangers) ReadFrom(b []byte) (int, net.Addr, error) {
	n, _, err := s.PacketConn.ReadFrom(b)
	return n, s.peer, err
}

func TestReportsSettleReceiptsOfTrustedPeers(t *testing.T) {
	e := openEngine(t, "[rules]\nrule : [hold] [uid=+] [time=600; count=1] [result=2; return=201]\n[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":10}\n")
	for name, c := range map[string]struct {
		network string
		peer    net.Addr
		want    string // the reason to drop; "" for none
	}{
		"UDP":                {"udp", nil, ""},
		"a unix socket":      {"unixgram", nil, ""},
		"a stranger":         {"udp", &net.UDPAddr{IP: net.IPv4(203, 0, 113, 7), Port: 7}, DroppedUntrusted},
		"a mapped neighbour": {"udp", &net.UDPAddr{IP: net.ParseIP("::ffff:10.0.0.7"), Port: 7}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			address := "127.0.0.1:0"
			if c.network == "unixgram" {
				address = filepath.Join(t.TempDir(), "report")
			}
			conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), c.network, address)
			if err != nil {
				t.Fatal(err)
			}
			to := conn
			if c.peer != nil {
				conn = strangers{conn, c.peer}
			}
			dropped := make(chan string, 10)
			var serving sync.WaitGroup
			serving.Go(func() {
				if err := NewReports(ReportOptions{Engine: e, Dropped: func(reason string) { dropped <- reason }}).Serve(conn); err != nil {
					t.Error(err)
				}
			})
			gateway, err := (&net.Dialer{}).DialContext(t.Context(), c.network, to.LocalAddr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer gateway.Close()
			taken := decide(t, e, engine.Take, name).Receipt
			sendReport(t, gateway, "status=200 receipt="+taken)
			sendReport(t, gateway, "response.text="+strings.Repeat("x", maxReport)+" receipt="+taken)
			want := DroppedTooLong
			if c.want != "" {
				want = c.want
			}
			if got := <-dropped; got != want { // the second datagram of trusted peers
				t.Errorf("dropped for %q; want %q", got, want)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			serving.Wait()
			if got := decide(t, e, engine.Browse, name).Allowed(); got != (c.want == "") {
				t.Errorf("the hold has ended: %v", got)
			}
		})
	}
}

func sendReport(t *testing.T, to net.Conn, fields string) {
	t.Helper()
	if err := to.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Write([]byte(syslog + fields)); err != nil {
		t.Fatal(err)
	}
}

// Reports that arrive faster than they are settled are dropped and counted, and the
// connection is read on.
func TestReportsBeyondTheQueueAreDropped(t *testing.T) {
	reasons := make(map[string]int)
	r := NewReports(ReportOptions{Dropped: func(reason string) { reasons[reason]++ }})
	queue := make(chan *engine.Settlement, 2) // nobody settles
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	datagram := []byte(syslog + "status=200 receipt=" + receipt)
	remaining := 5
	if err := r.receive(datagrams{conn, func(b []byte) (int, bool) {
		remaining--
		return copy(b, datagram), remaining >= 0
	}}, queue); err == nil {
		t.Error("no error of a connection that ended")
	}
	if reasons[DroppedQueueFull] != 3 || len(reasons) != 1 {
		t.Errorf("dropped %v; want 3 of 5 because the queue is full", reasons)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// datagrams is a connection that reads what next returns.
type datagrams struct {
	net.PacketConn
	next func([]byte) (int, bool)
}

func (d datagrams) ReadFrom(b []byte) (int, net.Addr, error) {
	n, ok := d.next(b)
	if !ok {
		return 0, nil, net.ErrClosed
	}
	return n, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, nil
}

// openEngine returns an engine that counts in process by a rule file.
func openEngine(t *testing.T, text string) *engine.Engine {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	return engine.New(set)
}

// decide decides an operation for a user.
func decide(t *testing.T, e *engine.Engine, op engine.Op, uid string) *engine.Decision {
	t.Helper()
	d, err := e.Decide(t.Context(), &engine.Call{Op: op, Inputs: []engine.Input{{Params: rules.MakeParams(map[string]string{"uid": uid})}}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
