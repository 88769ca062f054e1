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
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/mapping"
)

// The bounds of a call.
const (
	maxFormBytes = 64 << 10
	maxJobs      = 256 // of /multi/browse; each is a step of its own
)

// call is one call of the API with the memory that it needs, which is reused.
type call struct {
	server *server
	w      http.ResponseWriter
	http   *http.Request
	begun  bool // whether the reply has begun

	question door.Question
	body     []byte // of the reply
}

// read reads the arguments from the query, then from the form. If it cannot read the
// form, it replies with the reason and returns false.
func (c *call) read() bool {
	c.setArguments(c.http.URL.RawQuery)
	if c.http.Method != http.MethodPost {
		return true
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.http.Body, maxFormBytes))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		c.w.Header().Set("Connection", "close")
		c.fail(http.StatusRequestEntityTooLarge, "the form is longer than "+strconv.Itoa(maxFormBytes)+" bytes")
	case err != nil:
		c.fail(http.StatusBadRequest, "the form is incomplete")
	case len(body) > 0 && !isForm(c.http.Header.Get("Content-Type")):
		// Ignoring the body would decide on other parameters than were sent.
		c.fail(http.StatusUnsupportedMediaType, "want a form of type application/x-www-form-urlencoded")
	default:
		c.question.Request.Args = appendArguments(c.question.Request.Args, string(body))
		return true
	}
	return false
}

// setArguments replaces the arguments of the call by the arguments of a query.
func (c *call) setArguments(query string) {
	c.question.Request.Args = appendArguments(c.question.Request.Args[:0], query)
}

// isForm reports whether a body of this type is a form; a body without a type is one.
func isForm(contentType string) bool {
	if contentType == "" {
		return true
	}
	kind, _, _ := mime.ParseMediaType(contentType)
	return kind == "application/x-www-form-urlencoded"
}

// appendArguments appends the arguments of a query or form in their order. It skips
// empty arguments and does not decode an argument with an invalid escape: neither
// may hide later arguments from the rules.
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

// own returns the value of an argument of the API itself, "" without one. The first
// of several counts, as with all arguments.
func (c *call) own(name string) string {
	arguments := c.question.Request.Args
	for i := range arguments {
		if arguments[i].Key == name {
			return arguments[i].Value
		}
	}
	return ""
}

func (c *call) writesThrough() bool {
	return c.own("_writeThrough") == "yes"
}

// hits returns the number of hits, 1 without the argument _hits. If that is invalid,
// hits replies with the reason and returns false.
func (c *call) hits() (uint64, bool) {
	value := c.own("_hits")
	if value == "" {
		return 1, true
	}
	hits, err := strconv.ParseUint(value, 10, 64)
	if err != nil || hits > engine.MaxHits {
		c.failHits()
		return 0, false
	}
	return hits, true
}

// failHits replies that _hits is invalid.
func (c *call) failHits() {
	c.fail(http.StatusBadRequest, "_hits must be a number from 0 to "+strconv.FormatInt(engine.MaxHits, 10))
}

// ruleNumber returns the number of the rule that the call names. If it is invalid,
// ruleNumber replies with the reason and returns false.
func (c *call) ruleNumber() (int64, bool) {
	value := c.own("rule_no")
	number, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		c.fail(http.StatusBadRequest, "rule_no must be a number")
		return 0, false
	}
	return number, true
}

// job is one parameter set of /multi/browse.
type job struct {
	ID  string `json:"Id"`
	Arg string
}

// query returns the job's query. Koala's clients encode it as a whole, which leaves no
// equals sign in it; a query with one was not encoded.
func (j job) query() string {
	if strings.Contains(j.Arg, "=") {
		return j.Arg
	}
	return unescape(j.Arg)
}

// jobs returns the parameter sets of /multi/browse. If they are invalid, jobs replies
// with the reason and returns false.
func (c *call) jobs() ([]job, bool) {
	value := c.own("argsJson")
	var jobs []job
	switch err := json.Unmarshal([]byte(value), &jobs); {
	case err != nil:
		c.fail(http.StatusBadRequest, `argsJson must be a list of {"Id":"…","Arg":"…"}`)
	case len(jobs) > maxJobs:
		c.fail(http.StatusBadRequest, "argsJson has more than "+strconv.Itoa(maxJobs)+" jobs")
	default:
		return jobs, true
	}
	return nil, false
}
