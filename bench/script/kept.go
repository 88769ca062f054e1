package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// worse is the ratio from which on a scene is reported as dearer.
const worse = 1.03

// kept is the instructions per decision in testdata, with the Redis that they hold for.
type kept struct {
	redis  string // its version
	scenes map[string]float64
}

// parseKept reads the kept figures: a line `redis: VERSION`, and a line `SCENE: NUMBER` for
// each scene.
func parseKept(text io.Reader) (*kept, error) {
	k := &kept{scenes: map[string]float64{}}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		name, value, found := strings.Cut(lines.Text(), ": ")
		if name == "redis" {
			k.redis = value
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if !found || err != nil || !(n > 0) {
			return nil, fmt.Errorf("invalid line %q; want SCENE: NUMBER", lines.Text())
		}
		k.scenes[name] = n
	}
	return k, lines.Err()
}

// String returns the figures as parseKept reads them, in the order of scenes.
func (k *kept) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "redis: %s\n", k.redis)
	for i := range scenes {
		if n, measured := k.scenes[scenes[i].name()]; measured {
			fmt.Fprintf(&b, "%s: %.0f\n", scenes[i].name(), n)
		}
	}
	return b.String()
}

// compare returns what needs more instructions than the kept figures, and what has none.
func (k *kept) compare(now *kept) (faults []string) {
	if k.redis != now.redis {
		return []string{fmt.Sprintf("the kept figures are those of Redis %s, not of %s: run with -update at the commit before the change first", k.redis, now.redis)}
	}
	for name, n := range now.scenes {
		switch before, known := k.scenes[name]; {
		case !known:
			faults = append(faults, name+": no kept figure; run with -update")
		case n > worse*before:
			faults = append(faults, fmt.Sprintf("%s: %.0f instructions, %.3f of the kept %.0f", name, n, n/before, before))
		}
	}
	slices.Sort(faults)
	return faults
}
