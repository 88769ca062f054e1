package probe

import (
	"context"
	"slices"

	"github.com/koalagate/koalagate/internal/printable"
)

// outcome classifies the response to a request of checkChoices.
type outcome int

const (
	refused   outcome = iota // or answered with another error
	passed                   // without a quota
	passedFor                // with a quota that the answer reports
)

// sendFunc sends one request. The error ends the probe.
type sendFunc func(ctx context.Context, r request) (outcome, error)

// checkChoices varies and leaves out what a client chooses of a request that is over its
// limit. Whether clients may choose it is unknown: a key or a session authenticates the
// client, while a user name does not.
func (p *prober) checkChoices(ctx context.Context, send sendFunc) {
	plain := p.request()
	own := plain.sources()
	list := distinct(slices.Concat(own, p.Sources))
	notes := len(p.report.Items)
	for i, s := range list {
		result, err := send(ctx, plain.with(s, forgedValue))
		switch {
		case err != nil:
			p.fault("choosing", err.Error(), stopped)
			return
		case result == refused:
		case !p.isStillOver(ctx, send, plain):
			return
		default:
			p.note("choosing", "with "+another(s, i < len(own))+" the request passes: a client that chooses it has a limit per value;", choiceAdvice(s))
		}
	}
	for _, s := range own {
		if !p.checkOmission(ctx, send, plain.with(s, ""), s) {
			return
		}
	}
	if len(list) > 0 && len(p.report.Items) == notes {
		p.ok("varying", "other values of %s are refused", printable.Count(len(list), "source"))
	}
}

// another names a forged value of a source, which the plain request has or does not have.
func another(s Source, own bool) string {
	switch {
	case !own:
		return "a value of " + s.String()
	case s.Kind == Header:
		return "another " + s.Name
	}
	return "another value of " + s.String()
}

// choiceAdvice returns the advice for a source that selects a limit.
func choiceAdvice(s Source) string {
	if s.Kind == Header {
		return "unless the header authenticates the client, let the gateway overwrite it"
	}
	return "unless the value authenticates the client, limit by address, too"
}

// isStillOver reports whether the plain request is still refused, and adds a note if the
// window ended.
func (p *prober) isStillOver(ctx context.Context, send sendFunc, plain request) bool {
	if result, err := send(ctx, plain); err == nil && result == refused {
		return true
	}
	p.note("choosing", "the window ended, so the remaining checks are skipped; probe again")
	return false
}

// checkOmission sends a request without a source until it is refused or reports a quota.
// It returns false if the probe must end.
func (p *prober) checkOmission(ctx context.Context, send sendFunc, without request, s Source) bool {
	for range p.Requests {
		result, err := send(ctx, without)
		switch {
		case err != nil:
			p.fault("choosing", err.Error(), stopped)
			return false
		case result != passed:
			return true
		}
	}
	p.note("choosing", "without "+s.String()+" none of "+printable.Count(p.Requests, "request")+" is refused, and no response reports a quota:",
		"a client that leaves it out is not limited, unless another limit is above --requests")
	return true
}
