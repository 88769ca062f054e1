package heavy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/koalagate/koalagate/internal/fleet/minutes"
)

// Row are the calls of an identity.
type Row struct {
	Rule     int64             `json:"rule"`           // 0 for an imported limit
	Name     string            `json:"name,omitempty"` // of the rule; the path of an imported limit
	Identity map[string]string `json:"identity"`       // by name; NAME@KIND for later sources
	// Shortened reports that a value is too long for lists: the identity has its beginning and a
	// hash, which are no value.
	Shortened bool `json:"shortened,omitempty"`
	// Handle names the identity in changes at this instance. "" if the values are shown, or if one
	// is shortened that this instance does not know.
	Handle   string `json:"handle,omitempty"`
	Refused  int64  `json:"refused"`
	Admitted int64  `json:"admitted"`
	Near     int64  `json:"near"`
	// Error is by how much the number by which the list is sorted may be too low.
	Error int64 `json:"error"`

	Standing
}

// Standing is what the rules in force do about an identity. The zero value is that a rule counts it.
type Standing struct {
	// Gone reports that there is no such rule in force, or that it counts by other parameters or
	// under other conditions.
	Gone bool `json:"gone,omitempty"`
	// Direct reports that the rule counts nothing, so that no counter can be reset.
	Direct bool `json:"direct,omitempty"`
	// Exception is the one that applies to the identity; nil for none.
	Exception *Exception `json:"exception,omitempty"`
}

// Exception is an exception that applies to an identity now.
type Exception struct {
	ID    string    `json:"id"`
	What  string    `json:"what"` // count, allow, deny or ban
	Until time.Time `json:"until"`
}

// Question selects identities. The zero value asks for the ten with the most refusals in
// the last ten minutes.
type Question struct {
	Rule  int64         // of one rule; 0 for all
	By    Kind          // by which the list is sorted
	Since time.Duration // 1 minute … 1 hour; 0 for ten minutes
	Most  int           // rows, 1 … MaxRows; 0 for ten
}

// MaxRows is the maximum number of rows.
const MaxRows = 1000

const (
	defaultSince = 10 * time.Minute
	defaultRows  = 10
)

// ParseKind returns the kind with a name: refused, admitted or near.
func ParseKind(name string) (Kind, error) {
	switch name {
	case "refused":
		return Refused, nil
	case "admitted":
		return Admitted, nil
	case "near":
		return Near, nil
	}
	return 0, fmt.Errorf("unknown kind %.40q; want refused, admitted or near", name)
}

// Top returns the heaviest identities of all instances or, without Redis or if it does not
// answer, of this one. isFleet reports that the rows cover all instances.
func (r *Recorder) Top(ctx context.Context, q Question) (rows []Row, isFleet bool) {
	q.Since, q.Most = cmp.Or(q.Since, defaultSince), cmp.Or(q.Most, defaultRows)
	r.empty()
	last := minutes.Of(r.o.Now())
	first := max(minutes.Of(r.o.Now().Add(-q.Since)), last-minutes.Kept+1)
	list := r.own(first)
	if r.o.Shared != nil {
		others, err := r.others(ctx, first, last)
		if err != nil {
			r.warner.Warn("the heaviest identities of other instances cannot be read", "error", err)
		}
		list, isFleet = append(list, others...), err == nil
	}
	return r.rank(list, q), isFleet
}

// own returns the minutes of this instance from first on.
func (r *Recorder) own(first int64) []*minute {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*minute
	for _, m := range r.hour {
		if m != nil && m.number >= first && m.number < r.minute {
			list = append(list, m)
		}
	}
	if r.isUsed() {
		list = append(list, r.freeze())
	}
	return list
}

// others returns the minutes of the other instances.
func (r *Recorder) others(ctx context.Context, first, last int64) ([]*minute, error) {
	found, err := r.o.Shared.Read(ctx, documents, first, last)
	if err != nil {
		return nil, err
	}
	var list []*minute
	for _, d := range found {
		if m, err := decode(d.Minute, d.Text); err == nil { // others are of other programs
			list = append(list, m)
		}
	}
	return list, nil
}

// total are the calls of an identity in several minutes.
type total struct {
	*identity

	calls  [kinds]int64
	excess int64 // of the kind by which rows are sorted
}

// rank adds up minutes.
func (r *Recorder) rank(list []*minute, q Question) []Row {
	totals := make(map[string]*total)
	var most int64
	for _, m := range list {
		most += m.Most[q.By]
		for i := range m.List {
			one := &m.List[i]
			if q.Rule != 0 && one.Rule != q.Rule {
				continue
			}
			key := one.key()
			t := totals[key]
			if t == nil {
				t = &total{identity: one}
				totals[key] = t
			} else if t.whole == nil && one.whole != nil {
				t.identity = one
			}
			for k := range t.calls {
				t.calls[k] += one.Least[k]
			}
			// In minutes that do not list the identity, it has the most of the others at most.
			t.excess += one.Excess[q.By] - m.Most[q.By]
		}
	}
	var order []*total
	for _, t := range totals {
		if t.calls[q.By] > 0 {
			order = append(order, t)
		}
	}
	slices.SortFunc(order, func(a, b *total) int {
		return cmp.Or(cmp.Compare(b.calls[q.By], a.calls[q.By]), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.key(), b.key()))
	})
	rows := []Row{}
	for _, t := range order[:min(len(order), q.Most)] {
		rows = append(rows, r.row(t, most))
	}
	return rows
}

// row returns the row of an identity, with values as they may be shown.
func (r *Recorder) row(t *total, most int64) Row {
	row := Row{
		Rule: t.Rule, Name: t.Limit, Identity: make(map[string]string),
		Refused: t.calls[Refused], Admitted: t.calls[Admitted], Near: t.calls[Near], Error: max(t.excess+most, 0),
	}
	if rule := r.o.Rule(t.Rule); rule != nil {
		row.Name = rule.Name
	}
	values := make(map[string]string)
	for i := 0; i+1 < len(t.Values); i += 2 {
		name, listed := string(t.Values[i]), string(t.Values[i+1])
		value := listed
		if t.whole != nil {
			value = t.whole[name]
		}
		shown := r.o.Mask(t.Door, name, value)
		if shown == value {
			shown = listed
		}
		values[name], row.Identity[name] = value, shown
		row.Shortened = row.Shortened || isShortened(listed)
	}
	if !row.Shortened || t.whole != nil {
		row.Standing = r.o.Standing(t.Rule, t.Limit, values)
		row.Handle = r.o.Handle(values, row.Identity)
	}
	return row
}

// share writes the minutes from first on to Redis.
func (r *Recorder) share(ctx context.Context, first int64) {
	r.empty()
	for _, m := range r.own(first) {
		if err := r.o.Shared.Write(ctx, documents, m.number, m.encode()); err != nil && ctx.Err() == nil {
			r.warner.Warn("other instances do not see the heaviest identities of this one", "error", err)
		}
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
