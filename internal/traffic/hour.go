package traffic

import (
	"context"
	"time"

	"github.com/koalagate/koalagate/internal/fleet/minutes"
)

// Second is the event about the decisions since the last one, which is sent every second,
// also without decisions.
type Second struct {
	At     time.Time `json:"at"`
	SpanMS int64     `json:"span_ms"` // the time in which they were made
	Verdicts
	Refusals []RuleRefusals `json:"refusals"` // by rule; those with none are left out
}

// RuleRefusals are the refusals by a rule. Number 0 is an imported limit, named by its path, or
// without a name the rules without counts of their own.
type RuleRefusals struct {
	Rule    int64  `json:"rule"`
	Name    string `json:"name,omitempty"`
	Refused int64  `json:"refused"`
}

// secondOf returns the event about decisions.
func secondOf(now time.Time, span time.Duration, t *Totals) *Second {
	s := &Second{At: now.UTC(), SpanMS: span.Milliseconds(), Verdicts: t.Verdicts, Refusals: []RuleRefusals{}}
	refusing := make(map[Rule]Counts)
	for r, c := range t.Rules {
		if c.Refused > 0 {
			refusing[r] = Counts{Refused: c.Refused}
		}
	}
	for _, r := range busiest(refusing) {
		s.Refusals = append(s.Refusals, RuleRefusals{r.Number, r.Name, refusing[r].Refused})
	}
	if left := rest(refusing); left.Refused > 0 {
		s.Refusals = append(s.Refusals, RuleRefusals{Refused: left.Refused})
	}
	return s
}

// Hour is the traffic of the last 60 minutes. All lists have 60 numbers, the oldest
// minute first; the last one is the current minute.
type Hour struct {
	At        time.Time  `json:"at"`        // when the first minute began
	Scope     string     `json:"scope"`     // fleet, or instance
	Instances int        `json:"instances"` // that decided anything
	Allowed   []int64    `json:"allowed"`
	Refused   []int64    `json:"refused"`
	Observed  []int64    `json:"observed"`
	Missed    []int64    `json:"unavailable"`
	Invalid   []int64    `json:"invalid"`
	Rules     []HourRule `json:"rules"`
}

// HourRule is the traffic of a rule. Number 0 is an imported limit, named by its path, or
// without a name the rules without counts of their own.
type HourRule struct {
	Rule     int64   `json:"rule"`
	Name     string  `json:"name,omitempty"`
	Admitted []int64 `json:"admitted"`
	Refused  []int64 `json:"refused"`
	Near     []int64 `json:"near"`
	Shadow   []int64 `json:"shadow_refused"`
}

// The scopes of an Hour.
const (
	ScopeFleet    = "fleet"
	ScopeInstance = "instance"
)

// sharedHour is the traffic of the other instances.
type sharedHour struct {
	at        time.Time // when it was read
	minutes   map[int64]*Totals
	instances int
}

// sharedAge is the age up to which the traffic of the other instances is not read again.
const sharedAge = 2 * time.Second

// Hour returns the traffic of all instances or, without Redis or if it does not answer,
// of this one.
func (r *Recorder) Hour(ctx context.Context) *Hour {
	if r.o.Shared == nil {
		return r.Own()
	}
	others, err := r.others(ctx)
	if err != nil {
		r.warner.Warn("the traffic of other instances cannot be read", "error", err)
		return r.Own()
	}
	return r.assemble(ScopeFleet, others)
}

// Own returns the traffic of this instance.
func (r *Recorder) Own() *Hour { return r.assemble(ScopeInstance, &sharedHour{}) }

// others returns the traffic of the other instances.
func (r *Recorder) others(ctx context.Context) (*sharedHour, error) {
	r.sharing.Lock()
	defer r.sharing.Unlock()
	now := r.o.Now()
	if known := r.shared; known != nil && now.Sub(known.at) >= 0 && now.Sub(known.at) < sharedAge {
		return known, nil
	}
	last := minutes.Of(now)
	list, err := r.o.Shared.Read(ctx, kind, last-minutes.Kept+1, last)
	if err != nil {
		return nil, err
	}
	next, seen := &sharedHour{at: now, minutes: make(map[int64]*Totals)}, make(map[string]bool)
	for _, d := range list {
		t, err := decode(d.Text)
		if err != nil {
			continue // written by another program, or by a newer version
		}
		seen[d.Instance] = true
		if next.minutes[d.Minute] == nil {
			next.minutes[d.Minute] = &Totals{Rules: make(map[Rule]Counts)}
		}
		next.minutes[d.Minute].add(&t)
	}
	next.instances = len(seen)
	r.shared = next
	return next, nil
}

// assemble returns the hour of this instance and others.
func (r *Recorder) assemble(scope string, others *sharedHour) *Hour {
	last := minutes.Of(r.o.Now())
	first := last - minutes.Kept + 1
	var hour [minutes.Kept]Totals
	whole := Totals{Rules: make(map[Rule]Counts)}
	r.mu.Lock()
	for i := range hour {
		hour[i].Rules = make(map[Rule]Counts)
		minute := first + int64(i)
		if m := r.hour[minute%minutes.Kept]; m != nil && m.minute == minute {
			hour[i].add(&m.Totals)
		}
		if o := others.minutes[minute]; o != nil {
			hour[i].add(o)
		}
		whole.add(&hour[i])
	}
	r.mu.Unlock()
	h := &Hour{At: time.Unix(first*60, 0).UTC(), Scope: scope, Instances: others.instances + 1, Rules: []HourRule{}}
	for i := range hour {
		v := &hour[i].Verdicts
		appendTo([]*[]int64{&h.Allowed, &h.Refused, &h.Observed, &h.Missed, &h.Invalid}, v.fields())
	}
	for _, rule := range busiest(whole.Rules) {
		row := HourRule{Rule: rule.Number, Name: rule.Name}
		for i := range hour {
			c := hour[i].Rules[rule]
			row.append(&c)
			delete(hour[i].Rules, rule)
		}
		h.Rules = append(h.Rules, row)
	}
	if rest(whole.Rules) != (Counts{}) {
		row := HourRule{}
		for i := range hour {
			var c Counts
			for _, one := range hour[i].Rules {
				sum(c.fields(), one.fields())
			}
			row.append(&c)
		}
		h.Rules = append(h.Rules, row)
	}
	return h
}

func (h *HourRule) append(c *Counts) {
	appendTo([]*[]int64{&h.Admitted, &h.Refused, &h.Near, &h.Shadow}, c.fields())
}

// appendTo appends each number to its list.
func appendTo(lists []*[]int64, numbers []*int64) {
	for i, list := range lists {
		*list = append(*list, *numbers[i])
	}
}
