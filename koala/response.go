package koala

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// The constant replies are byte for byte the replies of Koala, because some of its clients
// compare text.
var (
	done           = []byte(`{"err_no":0, "err_msg":"OK"}`)
	unknownReceipt = []byte(`{"err_no":-3, "err_msg":"unknown receipt: settled before, or expired"}`)
	unknownRule    = []byte(`{"err_no":-2, "err_msg":"unknown rule_no!"}`)
	alive          = []byte(`{"errno": 0, "errmsg": "OK!"}`)
	redisError     = []byte(`{"errno": -1, "errmsg": "redis-error!"}`)
)

// The header values of replies. All replies share them, and net/http does not modify
// them.
var (
	typeJSON = []string{"application/json"}
	typeText = []string{"text/plain; charset=utf-8"}
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}
)

// appendEntry appends the entry of [result] that applies.
func appendEntry(b []byte, a *engine.Answer) []byte {
	switch {
	case a.Overruled(): // its entry is a refusal that is not carried out
		return (&rules.Result{RetType: 1, StrReason: a.DecisionWord()}).AppendEntry(b, 0)
	case a.Decider == nil:
		return a.Result.AppendEntry(b, a.Result.RetCode)
	}
	return a.Result.AppendEntry(b, a.Decider.Return)
}

// appendWait adds the time until the turn of the call to an entry.
func appendWait(entry []byte, wait time.Duration) []byte {
	if wait == 0 {
		return entry
	}
	entry = append(entry[:len(entry)-1], `,"Wait_ms":`...)
	return append(strconv.AppendInt(entry, wait.Milliseconds(), 10), '}')
}

// appendReceipt adds the receipt of the call to an entry.
func appendReceipt(entry []byte, receipt string) []byte {
	if receipt == "" {
		return entry
	}
	entry = append(entry[:len(entry)-1], `,"Receipt":"`...)
	return append(append(entry, receipt...), `"}`...)
}

// appendMarks adds the marks of the call, which JSON needs not escape, to an entry.
func appendMarks(entry []byte, a *engine.Answer) []byte {
	marks := a.Marks()
	if marks == nil {
		return entry
	}
	return append(entry[:len(entry)-1], `,"Marks":["`+strings.Join(marks, `","`)+`"]}`...)
}

// entriesOf returns the list of the entries of all rules that would refuse, or of the
// one entry that applies if there are none.
func entriesOf(a *engine.Answer) []byte {
	list := []byte{'['}
	refusing := a.Refusing
	if a.Overruled() {
		refusing = nil
	}
	for i, rule := range refusing {
		if i > 0 {
			list = append(list, ',')
		}
		list = rule.Result.AppendEntry(list, rule.Return)
	}
	if len(refusing) == 0 {
		list = appendEntry(list, a)
	}
	return append(list, ']')
}

// jobResult is the result of one job of /multi/browse.
type jobResult struct {
	id    string
	entry []byte
}

func resultsOf(results []jobResult) []byte {
	list := []byte{'['}
	for i, r := range results {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(append(list, `{"Id":`...), quote(r.id)...)
		list = append(append(list, `,"Result":`...), r.entry...)
		list = append(list, '}')
	}
	return append(list, ']')
}

func cacheValue(hits int64) []byte {
	b := strconv.AppendInt([]byte(`{"err_no":0, "err_msg":"", "cache_val":`), hits, 10)
	return append(b, '}')
}

// rulesText returns the text of the current rule files, each below its name if there
// are several.
func rulesText(set *rules.Set) []byte {
	if len(set.Sources) == 1 {
		return set.Sources[0].Text
	}
	var b bytes.Buffer
	for _, source := range set.Sources {
		b.WriteString("# " + source.Name + "\n")
		b.Write(source.Text)
		if !bytes.HasSuffix(source.Text, []byte("\n")) {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// fail replies with an error message.
func (c *call) fail(status int, message string) {
	b := append([]byte(`{"err_no":-1, "err_msg":`), quote(message)...)
	c.reply(status, append(b, '}'))
}

func (c *call) forbid() {
	c.fail(http.StatusForbidden, "koala_api is "+string(c.server.access)+", which does not allow this call; set koala_api to full to allow it")
}

// quote returns s as a JSON string.
func quote(s string) []byte {
	quoted, _ := json.Marshal(s) // cannot fail for a string
	return quoted
}

func (c *call) reply(status int, body []byte) { c.write(status, typeJSON, body) }

func (c *call) replyText(body []byte) { c.write(http.StatusOK, typeText, body) }

func (c *call) write(status int, contentType []string, body []byte) {
	c.begun = true
	h := c.w.Header()
	h["Content-Type"], h["Cache-Control"], h["X-Content-Type-Options"] = contentType, noStore, noSniff
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body) // fails only if the connection is closed
}
