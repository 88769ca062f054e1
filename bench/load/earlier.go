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
	r := newReport(os.Stdout)
	list := slices.DeleteFunc(contests(), func(c contest) bool { return !only.MatchString(c.name) })
	known, err := knownLimits(ctx, o.earlier, list)
	if err != nil {
		return err
	}
	versions, err := s.openVersions(o.earlier, traffic.Rules(known...))
	if err != nil {
		return err
	}
	var pairs []pair
	for _, c := range list {
		if !containsAll(known, c.kind.Names()) {
			r.print("\n%s: the earlier version does not know its rules.\n", c.name)
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
		r.add(&section, all)
		pairs = append(pairs, pair{c.name + ", in process", all[0], all[1]}, pair{c.name + ", Redis", all[2], all[3]})
	}
	r.print("%s", table(pairs))
	return nil
}

// openVersions starts both versions with the same rules: in process, the earlier one
// first, and with Redis.
func (s *scene) openVersions(binary, rules string) (list []*instance, err error) {
	file := filepath.Join(s.dir, "common.conf")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		return nil, err
	}
	for _, redis := range []bool{false, true} {
		for _, v := range []struct{ binary, name string }{{binary, "earlier"}, {s.binary, "now"}} {
			name := v.name + ", in process"
			if redis {
				name = v.name + ", Redis"
			}
			i, err := s.koalagateOf(v.binary, file, name, redis)
			if err != nil {
				return nil, err
			}
			i.counts = true
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
