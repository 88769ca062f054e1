package spans_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/spans"
	"github.com/koalagate/koalagate/rules"
)

// headers are headers by lower-case name.
type headers map[string]string

func (h headers) Header(name string) (string, bool) {
	value, found := h[name]
	return value, found
}

// receive starts a collector and returns a function that returns the spans it received.
func receive(t *testing.T) func() []*tracev1.Span {
	t.Helper()
	var mu sync.Mutex
	var received []*tracev1.Span
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
			t.Errorf("received %s, %v", r.URL, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range request.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				received = append(received, scope.GetSpans()...)
			}
		}
	}))
	t.Cleanup(s.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
	return func() []*tracev1.Span {
		mu.Lock()
		defer mu.Unlock()
		return received
	}
}

const oneRule = `[rules]
rule : [count] [uid=+] [time=90; count=1;] [result=2; return=201; name=posts]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// Each decision is a span with its rule and verdict, below the span of the gateway: of
// its own metadata, else of the headers of the request.
func TestDecisionsAreSpans(t *testing.T) {
	received := receive(t)
	exporter, err := spans.Open(t.Context(), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(oneRule)}}, rules.Options{Timezone: "UTC"})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	gate := &door.Gate{Engine: engine.New(set), Watch: &door.Watch{Decided: exporter.Decided}}
	ids := []string{strings.Repeat("a", 32), strings.Repeat("b", 32)}
	parent := func(i int) headers {
		return headers{"traceparent": fmt.Sprintf("00-%s-%s-01", ids[i], strings.Repeat("c", 16)), "x-request-id": "r-1"}
	}
	for i := range ids {
		q := new(door.Question)
		q.Request = mapping.Request{Door: "extauthz", Method: "GET", Path: "/", Context: map[string]string{"uid": "ann"}, Headers: parent(i)}
		if i == 1 {
			q.Metadata, q.Request.Headers = parent(1), parent(0)
		}
		if _, err := gate.Decide(t.Context(), q, gate.Hit(q)); err != nil {
			t.Fatal(err)
		}
		q.Reset()
	}
	if err := exporter.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	all := received()
	if len(all) != len(ids) {
		t.Fatalf("%d spans; want %d", len(all), len(ids))
	}
	for i, want := range []string{
		"koalagate.door=extauthz koalagate.request_id=r-1 koalagate.verdict=allow koalagate.store_seconds=0 koalagate.degraded=false",
		"koalagate.door=extauthz koalagate.request_id=r-1 koalagate.verdict=deny koalagate.store_seconds=0 koalagate.degraded=false koalagate.rule=201 koalagate.rule_name=posts",
	} {
		span := all[i]
		if got := hex.EncodeToString(span.GetTraceId()); got != ids[i] || hex.EncodeToString(span.GetParentSpanId()) != strings.Repeat("c", 16) || span.GetName() != "decide extauthz" {
			t.Errorf("span %d is %s of trace %s", i, span.GetName(), got)
		}
		var got []string
		for _, a := range span.GetAttributes() {
			value := a.GetValue()
			text := value.GetStringValue()
			switch {
			case strings.HasSuffix(a.GetKey(), ".rule"):
				text = strconv.FormatInt(value.GetIntValue(), 10)
			case strings.HasSuffix(a.GetKey(), "_seconds"):
				text = fmt.Sprint(value.GetDoubleValue())
			case strings.HasSuffix(a.GetKey(), ".degraded"):
				text = strconv.FormatBool(value.GetBoolValue())
			}
			got = append(got, a.GetKey()+"="+text)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("span %d has %s\nwant %s", i, text, want)
		}
	}
}

func TestEnabled(t *testing.T) {
	for _, c := range []struct {
		environ map[string]string
		want    bool
	}{
		{nil, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318"}, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"}, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"}, false},
		{map[string]string{"OTEL_SERVICE_NAME": "x"}, false},
	} {
		if got := spans.Enabled(func(name string) string { return c.environ[name] }); got != c.want {
			t.Errorf("%v: %v; want %v", c.environ, got, c.want)
		}
	}
}
