package trace

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

const secret = "rAbCdEfGhIjKlMnOpQrStUvWx"

func TestSettlementsAreLinesOfATrace(t *testing.T) {
	response := new(rules.Params)
	response.Set("response.status", "401")
	response.Set("response.user", "ann")
	response.Set("status", "7") // no parameter of the response
	for name, c := range map[string]struct {
		op   string
		s    engine.Settlement
		got  engine.Settled
		want string // after the name of the receipt
	}{
		"a settlement": {
			opSettle,
			engine.Settlement{Hits: 600, HasHits: true, Response: response, Door: "ratelimit"},
			engine.Settled{Known: true},
			`,"hits":600,"response":{"status":"401","user":"ann"},"answer":{"verdict":"ok"}}`,
		},
		"neither hits nor response": {opSettle, engine.Settlement{Door: "settle"}, engine.Settled{Known: true}, `,"answer":{"verdict":"ok"}}`},
		"one that waits for Redis":  {opSettle, engine.Settlement{}, engine.Settled{Known: true, Deferred: true}, `,"answer":{"verdict":"ok","degraded":true}}`},
		"a renewal":                 {opRenew, engine.Settlement{}, engine.Settled{Known: true}, `,"answer":{"verdict":"ok"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			c.s.Receipt = secret
			o := LogOptions{Mask: NewMask([]string{"response.user"}), Instance: "a:1"}
			line := string(appendSettlement(nil, 1_770_000_000_000, c.op, labelOf(secret), &c.s, c.got, o))
			if !strings.HasSuffix(line, c.want+"\n") || !strings.HasPrefix(line, `{"t":1770000000000,"op":"`+c.op+`",`) {
				t.Errorf("got %swant %s", line, c.want)
			}
			if strings.Contains(line, secret) {
				t.Errorf("%s shows the receipt", line)
			}
			l, err := parseLine([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			s := l.Settlement(secret)
			if !l.IsOnReceipt() || l.Renews() != (c.op == opRenew) || s.HasHits != c.s.HasHits || s.Hits != c.s.Hits || s.Now != l.T {
				t.Errorf("%s is read as %+v", line, s)
			}
			if status, _ := s.Response.Get("response.status"); c.s.Response != nil && status != "401" {
				t.Errorf("%s is read with the status %q", line, status)
			}
		})
	}
}

// A take and its settlement are in the same sample, so that a replay settles what it took.
func TestSamplesHaveTakesWithTheirSettlements(t *testing.T) {
	l := &Log{options: LogOptions{Every: 3}}
	taken := 0
	for i := range 300 {
		receipt := secret + strings.Repeat("x", i%90) + string(rune('a'+i%26))
		sampled := l.isSampled(&engine.Decision{Receipt: receipt})
		if sampled != labelOf(receipt).isSampled(3) {
			t.Fatal("a take is in the sample without its settlement")
		}
		if sampled {
			taken++
		}
	}
	if taken == 0 || taken == 300 {
		t.Errorf("%d of 300 are in the sample of one in three", taken)
	}
}

func TestLinesOnReceiptsAreChecked(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"no receipt":            {`{"t":1,"op":"settle","hits":5}`, "missing receipt"},
		"parameters":            {`{"t":1,"op":"settle","receipt":"a","params":{"a":"b"}}`, "settle takes receipt, hits and response only"},
		"a renewal with hits":   {`{"t":1,"op":"renew","receipt":"a","hits":5}`, "renew takes a receipt only"},
		"too many hits":         {`{"t":1,"op":"settle","receipt":"a","hits":1000000000000001}`, "hits is 1000000000000001"},
		"negative hits":         {`{"t":1,"op":"settle","receipt":"a","hits":-1}`, "hits: number -1 is not valid here"},
		"a take with response":  {`{"t":1,"params":{"a":"b"},"response":{"status":"200"}}`, "a response belongs to op settle"},
		"a settlement":          {`{"t":1,"op":"settle","receipt":"a","hits":0,"response":{"status":"200"}}`, ""},
		"a take with a receipt": {`{"t":1,"params":{"a":"b"},"receipt":"a"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseLine([]byte(c.line))
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
				t.Errorf("got %v; want %s", err, c.want)
			}
		})
	}
}
