package ratelimit

import (
	"fmt"
	"math"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/rules"
)

func request(t testing.TB, json string) *rlsv3.RateLimitRequest {
	t.Helper()
	r := new(rlsv3.RateLimitRequest)
	if err := protojson.Unmarshal([]byte(json), r); err != nil {
		t.Fatalf("%v in %s", err, json)
	}
	return r
}

// readCall reads a request into c and fills its question, and returns the gRPC error
// that the caller would get.
func readCall(t testing.TB, c *call, json string) error {
	t.Helper()
	c.server = New(Options{Engine: engine.New(noRules)})
	if err := c.UnmarshalBinary(wiretest.Marshal(t, request(t, json))); err != nil {
		t.Fatal(err)
	}
	err := c.check()
	c.begin()
	if err == nil {
		err = c.fill()
	}
	if err != nil {
		return c.server.explain(err)
	}
	return nil
}

// noRules is a rule set that names no parameter.
var noRules = new(rules.Set)

// read returns the parameters and the input of each descriptor in a request.
func read(t testing.TB, json string) ([]map[string]string, []engine.Input, error) {
	t.Helper()
	var c call
	if err := readCall(t, &c, json); err != nil {
		return nil, nil, err
	}
	var params []map[string]string
	for _, in := range c.question.Inputs() {
		values := map[string]string{}
		for _, p := range in.Params.List() {
			values[p.Name] = p.Value
		}
		params = append(params, values)
	}
	return params, c.question.Inputs(), nil
}

func TestEachDescriptorBecomesAParameterSet(t *testing.T) {
	for name, test := range map[string]struct {
		json string
		want []map[string]string
	}{
		"as Envoy's actions make them": {
			`[
				{"entries": [{"key": "remote_address", "value": "127.0.0.1"}]},
				{"entries": [{"key": "source_cluster", "value": "lab-cluster"}, {"key": "destination_cluster", "value": "upstream"}]},
				{"entries": [{"key": "path", "value": "/login?q=1&b=%20x"}]}]`,
			[]map[string]string{
				{"remote_address": "127.0.0.1"},
				{"source_cluster": "lab-cluster", "destination_cluster": "upstream"},
				{"path": "/login?q=1&b=%20x"},
			},
		},
		"without entries":          {`[{}]`, []map[string]string{{}}},
		"an empty value is absent": {`[{"entries": [{"key": "uid"}, {"key": "e", "value": ""}]}]`, []map[string]string{{}}},
		"an empty key is absent":   {`[{"entries": [{"value": "a"}]}]`, []map[string]string{{}}},
		"identical ones are two": {
			`[{"entries": [{"key": "k", "value": "a"}]}, {"entries": [{"key": "k", "value": "a"}]}]`,
			[]map[string]string{{"k": "a"}, {"k": "a"}},
		},
		"of a repeated key the first counts": {
			`[{"entries": [{"key": "k", "value": "a"}, {"key": "k", "value": "b"}]}]`,
			[]map[string]string{{"k": "a"}},
		},
		"entries for the service are no parameters": {
			`[{"entries": [{"key": "koala.hits", "value": "3"}, {"key": "k", "value": "a"}, {"key": "koala.other", "value": "b"}]}, {"entries": [{"key": "k", "value": "c"}]}]`,
			[]map[string]string{{"k": "a"}, {"k": "c"}},
		},
		"door and domain are not an entry's to say": {
			`[{"entries": [{"key": "door", "value": "koala"}, {"key": "domain", "value": "other"}]}]`,
			[]map[string]string{{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := read(t, `{"domain": "lab", "descriptors": `+test.json+`}`)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				want["door"], want["domain"] = "ratelimit", "lab"
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestHitsAddend(t *testing.T) {
	const most = `"1000000000000000"`
	for name, test := range map[string]struct {
		request, descriptor string
		hits                uint64
		refund              bool
	}{
		"unset is one":                 {``, ``, 1, false},
		"0 on the request is unset":    {`"hits_addend": 0,`, ``, 1, false},
		"the request's":                {`"hits_addend": 5,`, ``, 5, false},
		"the descriptor's own":         {`"hits_addend": 5,`, `"hits_addend": "7"`, 7, false},
		"0 on the descriptor looks":    {`"hits_addend": 5,`, `"hits_addend": "0"`, 0, false},
		"those of an entry":            {`"hits_addend": 5,`, `"entries": [{"key": "koala.hits", "value": "2e+09"}]`, 2_000_000_000, false},
		"its own before an entry's":    {``, `"hits_addend": "7", "entries": [{"key": "koala.hits", "value": "2e+09"}]`, 7, false},
		"an entry that is no number":   {`"hits_addend": 5,`, `"entries": [{"key": "koala.hits", "value": "junk"}]`, 5, false},
		"an entry that is negative":    {``, `"entries": [{"key": "koala.hits", "value": "-5"}]`, 1, false},
		"an entry beyond all weights":  {``, `"entries": [{"key": "koala.hits", "value": "1e300"}]`, engine.MaxHits + 1, false},
		"an entry of nothing looks":    {``, `"entries": [{"key": "koala.hits", "value": "0"}]`, 0, false},
		"the most that can be counted": {``, `"hits_addend": ` + most, engine.MaxHits, false},
		"the most on the request":      {`"hits_addend": 4294967295,`, ``, 1<<32 - 1, false},
		"hits beyond all weights":      {``, `"hits_addend": "18446744073709551615"`, math.MaxUint64, false},
		"negative hits are a refund":   {``, `"hits_addend": "3", "is_negative_hits": true`, 3, true},
		"a refund without a number":    {``, `"is_negative_hits": true`, 1, true},
		"a refund of the request's":    {`"hits_addend": 4,`, `"is_negative_hits": true`, 4, true},
		"a refund of nothing":          {``, `"hits_addend": "0", "is_negative_hits": true`, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, sets, err := read(t, `{"domain": "lab", `+test.request+` "descriptors": [{`+test.descriptor+`}]}`)
			if err != nil {
				t.Fatal(err)
			}
			if sets[0].Hits != test.hits || sets[0].Refund != test.refund {
				t.Errorf("%d hits, refund %v; want %d, %v", sets[0].Hits, sets[0].Refund, test.hits, test.refund)
			}
		})
	}
}

func TestLimitOfADescriptor(t *testing.T) {
	for limit, want := range map[string]engine.Override{
		`{"requests_per_unit": 42, "unit": "HOUR"}`:                               {Count: 42, Seconds: 3600},
		`{"requests_per_unit": 1, "unit": "SECOND"}`:                              {Count: 1, Seconds: 1},
		`{"requests_per_unit": 1, "unit": "MINUTE", "unit_multiplier": 10}`:       {Count: 1, Seconds: 600},
		`{"requests_per_unit": 1, "unit": "DAY"}`:                                 {Count: 1, Seconds: rules.Day},
		`{"requests_per_unit": 1, "unit": "DAY", "unit_multiplier": 1}`:           {Count: 1, Seconds: rules.Day},
		`{"requests_per_unit": 1, "unit": "HOUR", "unit_multiplier": 24}`:         {Count: 1, Seconds: rules.Day},
		`{"requests_per_unit": 1, "unit": "DAY", "unit_multiplier": 2}`:           {Count: 1, Seconds: 2 * rules.Day},
		`{"requests_per_unit": 1, "unit": "MONTH"}`:                               {Count: 1, Seconds: 30 * rules.Day},
		`{"requests_per_unit": 1, "unit": "YEAR"}`:                                {Count: 1, Seconds: 365 * rules.Day},
		`{"requests_per_unit": 1, "unit": "SECOND", "unit_multiplier": 31622400}`: {Count: 1, Seconds: 31622400},
		`{"requests_per_unit": 0, "unit": "SECOND"}`:                              {Count: 0, Seconds: 1},
		`{"requests_per_unit": 4294967295, "unit": "SECOND"}`:                     {Count: math.MaxUint32, Seconds: 1},
	} {
		_, sets, err := read(t, `{"domain": "lab", "descriptors": [{"entries": [{"key": "k", "value": "v"}, {"key": "e"}], "limit": `+limit+`}]}`)
		if err != nil {
			t.Errorf("%s: %v", limit, err)
			continue
		}
		want.Entries = []string{"lab", "k", "v", "e", ""}
		if diff := cmp.Diff(&want, sets[0].Override); diff != "" {
			t.Errorf("%s: -want +got:\n%s", limit, diff)
		}
	}
}

func TestInvalidRequests(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("{},", maxDescriptors+1), ",")
	own := func(fields string) string { return `{"domain": "lab", "descriptors": [{}, {` + fields + `}]}` }
	for name, test := range map[string]struct{ json, says string }{
		"no domain":                          {`{"descriptors": [{}]}`, "domain"},
		"an empty domain":                    {`{"domain": "", "descriptors": [{}]}`, "domain"},
		"no descriptors":                     {`{"domain": "lab"}`, "no descriptors"},
		"too many descriptors":               {`{"domain": "lab", "descriptors": [` + many + `]}`, "1025 descriptors"},
		"a limit without a unit":             {own(`"limit": {"requests_per_unit": 1}`), "descriptors[1]: a limit of unit UNKNOWN"},
		"a limit of a unit that is none":     {own(`"limit": {"requests_per_unit": 1, "unit": 9}`), "descriptors[1]: a limit of unit 9"},
		"a limit of no time":                 {own(`"limit": {"requests_per_unit": 1, "unit": "SECOND", "unit_multiplier": 0}`), "times 0"},
		"a limit beyond a leap year":         {own(`"limit": {"requests_per_unit": 1, "unit": "SECOND", "unit_multiplier": 31622401}`), "31622400 seconds"},
		"a limit of two years":               {own(`"limit": {"requests_per_unit": 1, "unit": "YEAR", "unit_multiplier": 2}`), "unit YEAR times 2"},
		"a limit of the longest that exists": {own(`"limit": {"requests_per_unit": 1, "unit": "YEAR", "unit_multiplier": 4294967295}`), "unit YEAR"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := read(t, test.json)
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Errorf("got %v; want InvalidArgument that says %q", err, test.says)
			}
		})
	}
}

func TestMaximumOfDescriptorsIsAnOption(t *testing.T) {
	exceeded := 0
	s := New(Options{Engine: engine.New(noRules), MaxDescriptors: 2, TooManyDescriptors: func() { exceeded++ }})
	for descriptors, want := range map[string]int{"{},{}": 0, "{},{},{}": 1} {
		exceeded = 0
		c := call{server: s}
		if err := c.UnmarshalBinary(wiretest.Marshal(t, request(t, `{"domain": "lab", "descriptors": [`+descriptors+`]}`))); err != nil {
			t.Fatal(err)
		}
		if err := c.check(); (err != nil) != (want > 0) || exceeded != want {
			t.Errorf("%s of at most two: %v, reported %d times; want %d", descriptors, err, exceeded, want)
		}
	}
}

func TestMaximumOfDescriptorsIsRead(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("{},", maxDescriptors), ",")
	_, sets, err := read(t, `{"domain": "lab", "descriptors": [`+many+`]}`)
	if err != nil || len(sets) != maxDescriptors {
		t.Errorf("%d sets, %v; want %d", len(sets), err, maxDescriptors)
	}
}

func TestEndedCallKeepsNothing(t *testing.T) {
	const json = `{"domain": "lab", "descriptors": [
		{"entries": [{"key": "uid", "value": "ann"}], "limit": {"requests_per_unit": 1, "unit": "DAY"}}, {"is_negative_hits": true}]}`
	var c call
	if err := readCall(t, &c, json); err != nil {
		t.Fatal(err)
	}
	c.End()
	if c.server != nil || len(c.question.Inputs()) != 0 || c.question.Request.Domain != "" {
		t.Errorf("the ended call holds %+v", c)
	}
	if e := c.message.entries[:1]; c.message.text != "" || c.message.domain != "" || c.message.count != 0 || e[0] != (mapping.Entry{}) {
		t.Errorf("the ended call holds %v and %+v", e, c.message)
	}
	// A call that failed half-way must leave nothing either.
	if err := readCall(t, &c, `{"domain": "lab", "descriptors": [{}, {"limit": {}}]}`); err == nil {
		t.Fatal("a limit without a unit was read")
	}
	c.End()
	if err := readCall(t, &c, `{"domain": "lab", "descriptors": [{}]}`); err != nil || len(c.question.Inputs()) != 1 {
		t.Fatalf("%d inputs, %v; want the one of this call", len(c.question.Inputs()), err)
	}
	if in := c.question.Inputs()[0]; in.Override != nil || in.Refund || in.Hits != 1 {
		t.Errorf("the input of the next call is %+v", in)
	}
}
