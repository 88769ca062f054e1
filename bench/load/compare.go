package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/bench/process"
)

// compare measures rate limit services that are already running.
func (o *options) compare(ctx context.Context) error {
	s := &section{name: "Rate limit services side by side", load: o.load}
	for _, t := range kinds {
		if t.Name == o.traffic {
			s.traffic = t
		}
	}
	if s.traffic.Request == nil {
		var known []string
		for _, t := range kinds {
			known = append(known, t.Name)
		}
		return fmt.Errorf("-traffic %q: want one of %s", o.traffic, strings.Join(known, "; "))
	}
	for _, one := range [][2]string{{"peer", o.peer}, {"target", o.target}} {
		if one[1] == "" {
			continue
		}
		i, err := running(one[0], one[1])
		if err != nil {
			return err
		}
		s.subjects = append(s.subjects, i.rateLimit())
	}
	if o.load.callers < 1 {
		return errors.New("-callers: want at least 1")
	}
	all, err := s.measure(ctx, o.bounds)
	if err != nil {
		return err
	}
	r := newResults(o.report.Begin())
	r.add(s, all)
	return o.report.End(r.Part)
}

// running parses ADDR, ADDR/PID or ADDR/PID/REDIS-PID.
func running(flag, text string) (*instance, error) {
	parts := strings.Split(text, "/")
	i := &instance{name: flag + " " + parts[0], grpc: parts[0]}
	for n, p := range parts[1:] {
		pid, err := strconv.Atoi(p)
		if err != nil || n > 1 {
			return nil, fmt.Errorf("-%s %q: want ADDR, ADDR/PID or ADDR/PID/REDIS-PID", flag, text)
		}
		*[]*process.ID{&i.service, &i.redis}[n] = process.ID(pid)
	}
	return i, nil
}
