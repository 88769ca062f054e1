package koala

import (
	"net/http"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
)

// browse looks, and with _writeThrough=yes takes.
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
	if d, ok := c.decide(engine.Call{Op: op}); ok {
		c.body = appendEntry(c.body[:0], &d.Answers[0])
		c.reply(http.StatusOK, c.body)
	}
}

// browseComplete tells all rules that would decide, and with _writeThrough=yes
// counts if none refuses.
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

// feedback gives back what the matching leak rules name for this feedback.
func (c *call) feedback() {
	switch c.own("_feedbackType") {
	case "", "erase1":
		c.change(engine.Call{Op: engine.Refund, Erase: 1})
	case "erase2":
		c.change(engine.Call{Op: engine.Refund, Erase: 2})
	default:
		c.fault(http.StatusBadRequest, "unknown _feedbackType; want erase1 or erase2")
	}
}

func (c *call) change(q engine.Call) {
	if _, ok := c.decide(q); ok {
		c.reply(http.StatusOK, done)
	}
}

// value tells what one rule has counted for these parameters.
func (c *call) value() {
	number, ok := c.ruleNumber()
	if !ok {
		return
	}
	if c.rules.Rule(number) == nil {
		c.reply(http.StatusBadRequest, unknownRule)
		return
	}
	if d, ok := c.decide(engine.Call{Op: engine.Peek, Rule: number}); ok {
		c.reply(http.StatusOK, cacheValue(d.Answers[0].Hits))
	}
}

// multiBrowse looks for several parameter sets. Each is a question of its own.
func (c *call) multiBrowse() {
	jobs, ok := c.jobs()
	if !ok {
		return
	}
	results := make([]jobResult, len(jobs))
	for i := range jobs {
		c.request.Args = appendArguments(c.request.Args[:0], jobs[i].query())
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

func (c *call) allRules() { c.replyText(rulesText(c.rules)) }

// decide puts a question about the call's parameters to the engine; if it has
// no answer, it has said so.
func (c *call) decide(q engine.Call) (*engine.Decision, bool) {
	if err := mapping.Params(c.rules, &c.request, &c.server.mapping, &c.params); err != nil {
		c.fault(http.StatusBadRequest, err.Error())
		return nil, false
	}
	hits, ok := c.hits()
	if !ok {
		return nil, false
	}
	c.sets[0] = engine.Input{Params: &c.params, Hits: hits, NoHits: hits == 0}
	c.question = q
	c.question.Rules, c.question.Door, c.question.Inputs, c.question.Scratch = c.rules, doorname.Koala, c.sets[:], &c.room
	d, err := c.server.engine.Decide(c.http.Context(), &c.question)
	switch {
	case engine.IsInvalid(err):
		c.fault(http.StatusBadRequest, err.Error())
	case err != nil:
		c.server.logger.Debug("a call was not decided", "door", doorname.Koala, "error", err)
		c.fault(http.StatusServiceUnavailable, "the call was given up")
	case d.Unavailable:
		c.fault(http.StatusServiceUnavailable, "no store answers")
	default:
		return d, true
	}
	return nil, false
}
