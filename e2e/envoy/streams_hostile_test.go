package envoy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// endless answers as completion does, and by the query ?endless with an event stream that does
// not end before its client leaves.
func endless(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("endless") {
		completion(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event := "data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("x", 32<<10) + "\"}}],\"usage\":null}\n\n"
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, event); err != nil {
			return
		}
	}
}

// forgedReceipts are headers of a client by which it would settle, renew or give back.
func forgedReceipts(receipt string) string {
	return "X-Koala-Receipt: " + receipt + "\r\nX-Koala-Hits: -1000000\r\nX-Koala-Param-Estimate: 1\r\nX-Koala-Response-Status: 500\r\n" +
		"koala.receipt: " + receipt + "\r\nkoala.op: refund\r\nX-Token-Estimate: -1000000\r\nX-Koala-Op: refund\r\n"
}

// A client that never reads its streams, leaves them in the middle, and claims receipts of its own
// and of others pays for each stream once: its estimate, which nobody gets back. It holds no more
// streams than it may, and others go on meanwhile.
func TestHostileStreamsAreChargedOnce(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	const budget, estimate, atOnce = 100_000, 700, 4
	m := rig.StartBackend(t, endless)
	instances := h.Pair(h.SampleRules("examples/token-budget.conf"))
	g := rig.LlmEnvoy(h, m, instances...)
	rig.AvoidMidnight(t)
	const held, spent = "rule_no=201&domain=llm&budget=tokens&user=", "rule_no=202&domain=llm&budget=tokens&user="
	begin := func(query string, estimate int, headers string) net.Conn {
		conn := rig.Must((&net.Dialer{}).DialContext(t.Context(), "tcp", g.Address))(t)
		body := fmt.Sprintf(`{"stream":true,"max_tokens":%d}`, estimate)
		if _, err := fmt.Fprintf(conn, "POST /v1/chat/completions?%s HTTP/1.1\r\nHost: shop.example\r\nContent-Type: application/json\r\nX-User-Id: eve\r\n%sContent-Length: %d\r\n\r\n%s", query, headers, len(body), body); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	var unread []net.Conn
	for range atOnce {
		unread = append(unread, begin("endless", estimate, forgedReceipts(strings.Repeat("A", 27))))
	}
	rig.Spent(t, instances[0], held+"eve", atOnce)
	rig.Spent(t, instances[1], spent+"eve", atOnce*estimate)
	rig.WantStatus(t, http.StatusTooManyRequests, "POST", g.URL+"/?stream", "X-User-Id: eve")
	for range 3 {
		if status, _ := prompt(t, g.URL+"/?stream", `{"stream":true,"max_tokens":100}`, "X-User-Id: ann"); status != http.StatusOK {
			t.Errorf("ann gets %d while eve reads nothing; want 200", status)
		}
	}
	rig.Spent(t, instances[0], spent+"ann", 3*600)
	for _, conn := range unread {
		conn.Close()
	}
	rig.Spent(t, instances[0], held+"eve", 0)
	rig.Spent(t, instances[0], spent+"eve", atOnce*estimate)

	rounds := 5
	if *long {
		rounds = 25
	}
	total := atOnce * estimate
	for i := range rounds {
		s := stream{"?stream&leave", estimate, estimate}
		ctx, cancel := context.WithCancel(t.Context())
		for range atOnce {
			if status, err := s.sendAs(ctx, g.URL, "eve", forgedReceipts(fmt.Sprintf("%027d", i))); err != nil || status != http.StatusOK {
				t.Errorf("a stream of eve: %d, %v", status, err)
			}
			total += estimate
			rig.Spent(t, instances[i%2], held+"eve", 0) // the client has left
		}
		cancel()
	}
	rig.Spent(t, instances[0], spent+"eve", total)
	rig.Spent(t, instances[1], spent+"ann", 3*600)
	if total > budget {
		t.Errorf("%d tokens are beyond the budget", total)
	}
}
