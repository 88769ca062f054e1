package koala

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/hits"
	"github.com/koalagate/koalagate/rules"
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
	if d, ok := c.decide(engine.Call{Op: op, CallerWaits: true}); ok {
		a := &d.Answers[0]
		c.body = appendReceipt(appendWait(appendMarks(appendEntry(c.body[:0], a), a), d.Wait), d.Receipt)
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
		list := entriesOf(&d.Answers[0])
		last := appendReceipt(appendMarks(list[:len(list)-1], &d.Answers[0]), d.Receipt)
		c.reply(http.StatusOK, append(last, ']'))
	}
}

func (c *call) update() { c.changeMet(engine.Update) }

func (c *call) refund() { c.changeMet(engine.Refund) }

// changeMet carries out an operation. It fails if the parameters meet no rule, because
// nothing was counted: probably one is missing or misspelt.
func (c *call) changeMet(op engine.Op) {
	d, ok := c.decide(engine.Call{Op: op})
	switch {
	case !ok:
	case !d.Answers[0].Matched && d.Answers[0].Mode != engine.ModeOff:
		c.fail(http.StatusBadRequest, "the parameters meet no rule, so that nothing was counted; koalagate explain --door koala NAME=VALUE… lists the conditions that fail")
	default:
		c.reply(http.StatusOK, done)
	}
}

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
	rule, params, ok := c.namedRule()
	if !ok {
		return
	}
	if missing := rule.Missing(params); len(missing) > 0 {
		c.fail(http.StatusBadRequest, "rule "+rule.Label()+" needs the missing parameters: "+strings.Join(missing, ", "))
		return
	}
	if d, ok := c.decide(engine.Call{Op: engine.Peek, Rule: rule.Return}); ok {
		c.reply(http.StatusOK, cacheValue(d.Answers[0].Hits))
	}
}

// reset forgets the hits of one rule for these parameters, and lifts a ban. It
// uses only the parameters that the rule counts by, so that callers can send the
// parameters of their other calls.
func (c *call) reset() {
	rule, params, ok := c.namedRule()
	if !ok {
		return
	}
	var named rules.Params
	for _, name := range rule.CountsBy() {
		if value, set := params.Get(name); set {
			named.SetNamed(params.FullName(name), value)
		}
	}
	match, err := rule.Identify(&named)
	if err == nil {
		_, err = c.server.gate.Engine.ResetCounter(c.http.Context(), match)
	}
	var incomplete *rules.IdentityError
	switch {
	case err == nil:
		c.reply(http.StatusOK, done)
	case errors.As(err, &incomplete), engine.IsInvalid(err):
		c.fail(http.StatusBadRequest, err.Error())
	default:
		c.explain(door.FaultOf(err))
	}
}

// namedRule returns the rule that the call names, and its parameters. If it cannot, it
// replies with the reason and returns false.
func (c *call) namedRule() (*rules.Rule, *rules.Params, bool) {
	number, ok := c.ruleNumber()
	if !ok {
		return nil, nil, false
	}
	rule := c.question.Rules().Rule(number)
	if rule == nil {
		c.reply(http.StatusBadRequest, unknownRule)
		return nil, nil, false
	}
	if err := c.server.gate.Map(&c.question, 0); err != nil {
		c.fail(http.StatusBadRequest, err.Error())
		return nil, nil, false
	}
	return rule, c.question.Inputs()[0].Params, true
}

// multiBrowse browses several parameter sets, with one decision each.
func (c *call) multiBrowse() {
	jobs, ok := c.jobs()
	if !ok {
		return
	}
	results := make([]jobResult, len(jobs))
	for i := range jobs {
		c.question.Resize(1) // without what a trial kept of the job before
		c.setArguments(jobs[i].query())
		d, ok := c.decide(engine.Call{Op: engine.Browse})
		if !ok {
			return
		}
		results[i] = jobResult{jobs[i].ID, appendMarks(appendEntry(nil, &d.Answers[0]), &d.Answers[0])}
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
	n, ok := c.hits()
	if !ok {
		return nil, false
	}
	in := &c.question.Inputs()[0]
	in.Hits, in.NoHits = n, n == 0
	d, err := gate.Decide(c.http.Context(), &c.question, what)
	switch {
	case err != nil:
		c.explain(door.FaultOf(err))
	case d.Unavailable:
		c.fail(http.StatusServiceUnavailable, door.Unavailability(d, "no store answers"))
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

// settle settles the receipt _receipt with _hits, if stated, and the arguments whose names
// begin with response. As at the other doors, hits are what a gateway wrote: 2e+09, too.
func (c *call) settle() {
	s := &engine.Settlement{Receipt: c.own("_receipt"), Door: doorname.Koala, Response: new(rules.Params)}
	if value := c.own("_hits"); value != "" {
		used, ok := hits.Parse(value)
		if !ok {
			c.failHits()
			return
		}
		s.Hits, s.HasHits = uint64(used), true
	}
	door.StateResponse(s.Response, c.question.Request.Args)
	c.replySettled(s, c.server.gate.Engine.Settle)
}

// renew renews the receipt _receipt.
func (c *call) renew() {
	c.replySettled(&engine.Settlement{Receipt: c.own("_receipt"), Door: doorname.Koala}, c.server.gate.Engine.Renew)
}

// replySettled carries out an operation on a receipt and replies.
func (c *call) replySettled(s *engine.Settlement, do func(context.Context, *engine.Settlement) (engine.Settled, error)) {
	if !engine.ValidReceipt(s.Receipt) {
		c.fail(http.StatusBadRequest, "_receipt must be the Receipt of a reply")
		return
	}
	got, err := do(c.http.Context(), s)
	switch {
	case err != nil:
		c.server.logger.Warn("a receipt was not settled", "door", doorname.Koala, "error", err)
		c.fail(http.StatusServiceUnavailable, "no store answered; repeat the call")
	case !got.Known:
		c.reply(http.StatusOK, unknownReceipt)
	default:
		c.reply(http.StatusOK, done)
	}
}
