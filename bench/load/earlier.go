package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/koalagate/koalagate/bench/traffic"
)

// contest is a door and its traffic, with which two versions of the service are compared.
type contest struct {
	name string
	kind traffic.Kind
	load load
	door func(*instance) *subject
}

// contests lists all of them: every kind of traffic at the rate limit service, then the
// other doors.
func contests() []contest {
	many := load{callers: manyCallers}
	var list []contest
	for _, k := range kinds {
		list = append(list, contest{rateLimitSection + k.Name, k, many, (*instance).rateLimit})
	}
	receipts := func(settles bool) func(*instance) *subject {
		return func(i *instance) *subject { return i.receipts(settles) }
	}
	web := func(request string) func(*instance) *subject {
		return func(i *instance) *subject { return i.web(request) }
	}
	return append(list,
		contest{rateLimitSection + withReceipt, traffic.Receipt, many, receipts(false)},
		contest{rateLimitSection + andSettled, traffic.Receipt, many, receipts(true)},
		contest{rateLimitSection + traffic.ReceiptFull.Name, traffic.ReceiptFull, many, (*instance).rateLimit},
		contest{loneSection, traffic.Plain, load{callers: 1}, (*instance).rateLimit},
		contest{authorizationSection, traffic.Plain, many, (*instance).authorization},
		contest{authorizationFour, traffic.FourOfOne, many, (*instance).authorization},
		contest{authRequestSection, traffic.Plain, many, web(authRequest)},
		contest{authRequestTwo, traffic.TwoOfOne, many, web(authRequest)},
		contest{authRequestTwoFull, traffic.TwoFull, many, web(authRequest)},
		contest{koalaSection, traffic.Plain, many, web(koalaBrowse)},
	)
}

// compareVersions measures the service and an earlier binary of it alternately, with the
// rules that both know, and prints what became dearer.
func (o *options) compareVersions(ctx context.Context, s *scene, only *regexp.Regexp) error {
	r := newResults(o.report.Begin())
	list := slices.DeleteFunc(contests(), func(c contest) bool { return !only.MatchString(c.name) })
	known, err := knownLimits(ctx, o.earlier, list)
	if err != nil {
		return err
	}
	versions, err := s.openVersions(o.earlier, traffic.Rules(known...), o.instructions)
	if err != nil {
		return err
	}
	var pairs []pair
	for _, c := range list {
		if !containsAll(known, c.kind.Names()) {
			fmt.Printf("\n%s: the earlier version does not know its rules.\n", c.name)
			continue
		}
		section := section{name: c.name, traffic: c.kind, load: c.load}
		for _, i := range versions {
			section.subjects = append(section.subjects, c.door(i))
		}
		all, err := section.measure(ctx, o.bounds)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if !o.instructions {
			r.add(&section, all)
		}
		pairs = append(pairs, pair{c.name + ", in process", all[0], all[1]})
		if len(all) > 2 {
			pairs = append(pairs, pair{c.name + ", Redis", all[2], all[3]})
		}
	}
	r.Add(besideEarlier(pairs, o.instructions))
	if o.instructions {
		// At SIGTERM callgrind ends with a fault of its own.
		for _, p := range s.stage.Programs() {
			if err := p.Kill(); err != nil {
				return err
			}
		}
	}
	return o.report.End(r.Part)
}

// beside measures scenes next to a binary from before features that these scenes do not use.
func (r *run) beside(ctx context.Context, binary string) error {
	if binary == "" || !r.only.MatchString(besideSection) {
		return nil
	}
	r.Chapter("Without features that came later", "Next to an earlier version, "+filepath.Base(binary)+", which lacks features that these calls do not use.")
	kinds := []traffic.Kind{traffic.Plain, traffic.Four, traffic.FourOfOne, traffic.TwoOfOne}
	var names []string
	for _, k := range kinds {
		names = append(names, k.Names()...)
	}
	versions, err := r.scene.openVersions(binary, traffic.Rules(names...), false)
	if err != nil {
		return err
	}
	memory, redis := versions[:2], versions[2:]
	for _, c := range []struct {
		name      string
		kind      traffic.Kind
		instances []*instance
		door      func(*instance) *subject
	}{
		{"one rule", traffic.Plain, redis, (*instance).rateLimit},
		{"one rule in process", traffic.Plain, memory, (*instance).rateLimit},
		{traffic.Four.Name, traffic.Four, redis, (*instance).rateLimit},
		{traffic.FourOfOne.Name, traffic.FourOfOne, redis, (*instance).rateLimit},
		{"two limits over HTTP", traffic.TwoOfOne, redis, func(i *instance) *subject { return i.web(authRequest) }},
	} {
		s := section{name: besideSection + c.name, promised: true, traffic: c.kind, load: load{callers: manyCallers}}
		for _, i := range c.instances {
			s.subjects = append(s.subjects, c.door(i))
		}
		if err := r.section(ctx, &s); err != nil {
			return err
		}
		earlier, now := c.instances[0].name, c.instances[1].name
		r.Figure(c.name+", service and Redis CPU relative to the version before later features", ratio(r.figures(s.name, now), r.figures(s.name, earlier), totalCPU))
	}
	return nil
}

// besideSection begins the names of the sections with an earlier version.
const besideSection = "Next to an earlier version: "

// openVersions starts both versions with the same rules: in process, the earlier one
// first, and with Redis. To count instructions, it starts those in process alone: with
// Redis they depend on how many calls a batch holds, thus on time.
func (s *scene) openVersions(binary, rules string, instructions bool) (list []*instance, err error) {
	file := filepath.Join(s.dir, "common.conf")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		return nil, err
	}
	stores := []bool{false, true} // whether it is Redis
	if instructions {
		stores = stores[:1]
	}
	for _, redis := range stores {
		for _, v := range []struct{ binary, name string }{{binary, "earlier"}, {s.binary, "now"}} {
			name := v.name + ", in process"
			if redis {
				name = v.name + ", Redis"
			}
			program, t := v.binary, (*tally)(nil)
			if instructions {
				if program, t, err = s.inCallgrind(v.binary, v.name); err != nil {
					return nil, err
				}
			}
			i, err := s.koalagateOf(program, file, name, redis)
			if err != nil {
				return nil, err
			}
			i.counts = true
			if t != nil {
				t.pid, i.tally = int(i.service), t
			}
			list = append(list, i)
		}
	}
	return list, nil
}

// knownLimits returns the names of the limits whose rules a binary knows.
func knownLimits(ctx context.Context, binary string, list []contest) (known []string, err error) {
	for _, c := range list {
		for _, name := range c.kind.Names() {
			if slices.Contains(known, name) {
				continue
			}
			if is, err := traffic.Knows(ctx, binary, name); err != nil {
				return nil, err
			} else if is {
				known = append(known, name)
			}
		}
	}
	if len(known) == 0 {
		return nil, errors.New("nothing to compare: -only selects no section whose rules the earlier version knows")
	}
	return known, nil
}

func containsAll(list, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(one string) bool { return !slices.Contains(list, one) })
}
