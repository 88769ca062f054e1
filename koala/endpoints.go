package koala

import (
	"net/http"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/doorname"
)

// browse decides without counting, and with _writeThrough=yes also counts.
func (c *call) browse() {
	op := engine.Browse
	if c.writesThrough() {
		op = engine.Take
	}
	c.answerEntry(op)
}

func (c *call) take() { c.answerEntry(engine.Take) }

func (c *call) answerEntry(op engine.Op) {
	if op == engine.Take && !c.server.opens(true) {
		c.forbid()
		return
	}
	// The caller holds its request itself, for the Wait_ms of the reply.
	c.question.Patience = engine.MaxWait
	if d, ok := c.decide(engine.Call{Op: op, TellWait: true}); ok {
		c.body = appendWait(appendEntry(c.body[:0], &d.Answers[0]), d.Wait)
		c.reply(http.StatusOK, c.body)
	}
}

// browseComplete lists all rules that would refuse, and with _writeThrough=yes
// counts if none does.
func (c *call) browseComplete() {
	op := engine.Complete
	if c.writesThrough() {
		op = engine.CompleteTake
	}
	if op == engine.CompleteTake && !c.server.opens(true) {
		c.forbid()
		return
	}
	if d, ok := c.decide(engine.Call{Op: op}); ok {
		c.reply(http.StatusOK, entriesOf(&d.Answers[0]))
	}
}

func (c *call) update() { c.change(engine.Call{Op: engine.Update}) }

func (c *call) refund() { c.change(engine.Call{Op: engine.Refund}) }

// feedback gives back the hits that the matching leak rules name for this type of
// feedback.
func (c *call) feedback() {
	switch c.own("_feedbackType") {
	case "", "erase1":
		c.change(engine.Call{Op: engine.Refund, Erase: 1})
	case "erase2":
		c.change(engine.Call{Op: engine.Refund, Erase: 2})
	default:
		c.fail(http.StatusBadRequest, "unknown _feedbackType; want erase1 or erase2")
	}
}

func (c *call) change(what engine.Call) {
	if _, ok := c.decide(what); ok {
		c.reply(http.StatusOK, done)
	}
}

// value reports the hits that one rule has counted for these parameters.
func (c *call) value() {
	number, ok := c.ruleNumber()
	if !ok {
		return
	}
	if c.question.Rules().Rule(number) == nil {
		c.reply(http.StatusBadRequest, unknownRule)
		return
	}
	if d, ok := c.decide(engine.Call{Op: engine.Peek, Rule: number}); ok {
		c.reply(http.StatusOK, cacheValue(d.Answers[0].Hits))
	}
}

// multiBrowse browses several parameter sets, with one decision each.
func (c *call) multiBrowse() {
	jobs, ok := c.jobs()
	if !ok {
		return
	}
	results := make([]jobResult, len(jobs))
	for i := range jobs {
		c.setArguments(jobs[i].query())
		d, ok := c.decide(engine.Call{Op: engine.Browse})
		if !ok {
			return
		}
		results[i] = jobResult{jobs[i].ID, appendEntry(nil, &d.Answers[0])}
	}
	c.reply(http.StatusOK, resultsOf(results))
}

func (c *call) alive() {
	if c.server.redisAway() {
		c.reply(http.StatusInternalServerError, redisError)
		return
	}
	c.reply(http.StatusOK, alive)
}

func (c *call) allRules() { c.replyText(rulesText(c.question.Rules())) }

// decide makes a decision about the call's arguments. If there is none, it has
// replied with the reason and returns false. The caller sets the operation of what
// and the fields that belong to it.
func (c *call) decide(what engine.Call) (*engine.Decision, bool) {
	gate := &c.server.gate
	if err := gate.Map(&c.question, 0); err != nil {
		c.fail(http.StatusBadRequest, err.Error())
		return nil, false
	}
	hits, ok := c.hits()
	if !ok {
		return nil, false
	}
	in := &c.question.Inputs()[0]
	in.Hits, in.NoHits = hits, hits == 0
	d, err := gate.Decide(c.http.Context(), &c.question, what)
	switch {
	case err != nil:
		c.explain(door.FaultOf(err))
	case d.Unavailable:
		c.fail(http.StatusServiceUnavailable, "no store answers")
	default:
		return d, true
	}
	return nil, false
}

// explain replies to a call that has no decision.
func (c *call) explain(f door.Fault) {
	if f.IsRequest() {
		c.fail(f.Status, f.Detail)
		return
	}
	c.server.logger.Debug("call not decided", "door", doorname.Koala, "error", f.Err)
	c.fail(f.Status, "the call ended before it was decided")
}
