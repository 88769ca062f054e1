package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/rules"
)

// tellSlips says what looks like a slip in what explain was asked: the answer
// itself only shows that no rule is met.
func (q *inquiry) tellSlips(w io.Writer, set *rules.Set) {
	if capitals := strings.ToUpper(q.method); capitals != q.method {
		fmt.Fprintf(w, "koalagate: the method %s is another one than %s; methods are in capitals\n", q.method, capitals)
	}
	given := make(map[string]bool)
	for _, e := range q.given {
		given[e.Key] = true
	}
	var free []string // what rules go by and was not given
	for _, r := range set.Rules {
		if r.Cost != "" && !given[r.Cost] {
			free = append(free, r.Cost)
		}
		for _, c := range r.Conditions {
			if !given[c.Name] {
				free = append(free, c.Name)
			}
		}
	}
	for _, e := range q.given {
		if set.Uses(e.Key) || len(e.Key) < 4 { // ip is no slip of uid
			continue
		}
		if near := config.Nearest(e.Key, free); near != "" && near[0] == e.Key[0] {
			fmt.Fprintf(w, "koalagate: no rule goes by the parameter %s; did you mean %s?\n", e.Key, near)
		}
	}
}
