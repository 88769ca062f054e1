package koala

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// The bounds of a call.
const (
	maxFormBytes = 64 << 10
	maxJobs      = 256 // of /multi/browse; each is a step of its own
)

// call is one call, and what it needs on its way to the engine; kept for the
// next.
type call struct {
	server *server
	w      http.ResponseWriter
	http   *http.Request
	rules  *rules.Set // one generation for the whole call
	begun  bool       // the reply is

	request mapping.Request
	params  rules.Params
	sets    [1]engine.Input

	question engine.Call
	room     engine.Scratch
	body     []byte // of the reply
}

// read takes the arguments from the query, then from the form. If the form
// cannot be read, it has said so.
func (c *call) read() bool {
	c.request.Door = doorname.Koala
	c.request.Args = appendArguments(c.request.Args[:0], c.http.URL.RawQuery)
	if c.http.Method != http.MethodPost {
		return true
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.http.Body, maxFormBytes))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		c.fault(http.StatusRequestEntityTooLarge, "the form is longer than "+strconv.Itoa(maxFormBytes)+" bytes")
	case err != nil:
		c.fault(http.StatusBadRequest, "the form did not arrive whole")
	case len(body) > 0 && !isForm(c.http.Header.Get("Content-Type")):
		// Passing over it would decide on other parameters than were sent.
		c.fault(http.StatusUnsupportedMediaType, "want a form of type application/x-www-form-urlencoded")
	default:
		c.request.Args = appendArguments(c.request.Args, string(body))
		return true
	}
	return false
}

// isForm tells whether a body is a form; one of no stated type is.
func isForm(contentType string) bool {
	if contentType == "" {
		return true
	}
	kind, _, _ := mime.ParseMediaType(contentType)
	return kind == "application/x-www-form-urlencoded"
}

// appendArguments appends the arguments of a query or form in their order.
// Empty ones are passed over, and a broken escape leaves its argument as it
// stands: neither may keep what follows from the rules.
func appendArguments(list []mapping.Entry, query string) []mapping.Entry {
	for query != "" {
		var argument string
		argument, query, _ = strings.Cut(query, "&")
		name, value, _ := strings.Cut(argument, "=")
		if name != "" {
			list = append(list, mapping.Entry{Key: unescape(name), Value: unescape(value)})
		}
	}
	return list
}

func unescape(s string) string {
	if plain, err := url.QueryUnescape(s); err == nil {
		return plain
	}
	return s
}

// own is the value of an argument of the API itself, "" without one. Of several
// the first counts, as for all others.
func (c *call) own(name string) string {
	for i := range c.request.Args {
		if c.request.Args[i].Key == name {
			return c.request.Args[i].Value
		}
	}
	return ""
}

func (c *call) writesThrough() bool {
	return c.own("_writeThrough") == "yes"
}

// hits is the number of hits, 1 unless the call says another.
func (c *call) hits() (uint64, bool) {
	value := c.own("_hits")
	if value == "" {
		return 1, true
	}
	hits, err := strconv.ParseUint(value, 10, 64)
	if err != nil || hits > engine.MaxHits {
		c.fault(http.StatusBadRequest, "_hits is no number from 0 to "+strconv.FormatInt(engine.MaxHits, 10))
		return 0, false
	}
	return hits, true
}

func (c *call) ruleNumber() (int64, bool) {
	value := c.own("rule_no")
	number, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		c.fault(http.StatusBadRequest, "rule_no is no number")
		return 0, false
	}
	return number, true
}

// job is one question of /multi/browse.
type job struct {
	ID  string `json:"Id"`
	Arg string
}

// query is the job's query. Koala's clients encode it as a whole, which leaves
// no = in it; one that has a = was not.
func (j job) query() string {
	if strings.Contains(j.Arg, "=") {
		return j.Arg
	}
	return unescape(j.Arg)
}

func (c *call) jobs() ([]job, bool) {
	value := c.own("argsJson")
	var jobs []job
	switch err := json.Unmarshal([]byte(value), &jobs); {
	case err != nil:
		c.fault(http.StatusBadRequest, `argsJson is no list of {"Id":"…","Arg":"…"}`)
	case len(jobs) > maxJobs:
		c.fault(http.StatusBadRequest, "argsJson has more than "+strconv.Itoa(maxJobs)+" jobs")
	default:
		return jobs, true
	}
	return nil, false
}
