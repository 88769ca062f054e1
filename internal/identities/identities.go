// Package identities lets operators act on identities whose values their lists mask. Rows of
// the lists have handles. The instance that made a handle remembers its identity for an hour,
// in bounded memory, and shows the values to nobody.
package identities

import (
	"container/list"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/koalagate/koalagate/internal/trace"
)

const (
	// Kept is the time for which the identity of a handle is remembered after a list had it last.
	Kept = time.Hour
	// maxEntries and maxBytes bound the identities in memory and their texts. Those that no list
	// has had for the longest time are forgotten first.
	maxEntries = 8192
	maxBytes   = 4 << 20
	// maxHandle is the maximum length of a handle, in bytes.
	maxHandle = 400
	// digits is the number of hexadecimal digits before the name of the instance.
	digits = 16
)

// errForgotten reports a handle of this instance without an identity.
var errForgotten = errors.New("this instance does not know the handle any more: it keeps an identity for an hour after a list had it, while it runs; list the identities again")

// Options are the options of New. The zero value masks nothing.
type Options struct {
	// Mask masks the values of lists; nil shows all.
	Mask *trace.Mask
	// Instance names this instance in handles, so that others can say which one knows them.
	Instance string
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Memory remembers masked identities by handle. It is safe for concurrent use.
type Memory struct {
	o   Options
	key []byte // of handles, which do not reveal the values

	mu    sync.Mutex
	known map[string]*list.Element // by digits; the values are *entry
	order list.List                // the one that a list had last is the first
	bytes int
}

type entry struct {
	key    string
	at     time.Time // a list had it last
	values map[string]string
	shown  map[string]string // the same as lists show them
	bytes  int
}

// New returns a memory without identities.
func New(o Options) *Memory {
	if o.Mask == nil {
		o.Mask = trace.NewMask([]string{trace.ShowAll})
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &Memory{o: o, key: make([]byte, sha256.Size), known: make(map[string]*list.Element)}
	_, _ = rand.Read(m.key) // never fails
	return m
}

// Handle remembers an identity, and returns its handle: "" if what is shown of it has no mask.
func (m *Memory) Handle(identity, shown map[string]string) string {
	if maps.Equal(identity, shown) {
		return ""
	}
	e := &entry{at: m.o.Now(), values: maps.Clone(identity), shown: maps.Clone(shown)}
	h := hmac.New(sha256.New, m.key)
	for _, name := range slices.Sorted(maps.Keys(identity)) {
		fmt.Fprintf(h, "%d:%s%d:%s%t", len(name), name, len(identity[name]), identity[name], shown[name] != identity[name])
		e.bytes += len(name) + len(identity[name]) + len(shown[name])
	}
	if e.bytes > maxBytes {
		return ""
	}
	e.key = hex.EncodeToString(h.Sum(nil)[:digits/2])
	m.keep(e)
	return e.key + "@" + m.o.Instance
}

// keep remembers an identity, and forgets others beyond the bounds.
func (m *Memory) keep(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(m.known[e.key])
	m.known[e.key] = m.order.PushFront(e)
	m.bytes += e.bytes
	for last := m.order.Back(); len(m.known) > maxEntries || m.bytes > maxBytes || m.isOver(last); last = m.order.Back() {
		m.forget(last)
	}
}

// isOver reports whether an identity was kept for its time. m.mu is held.
func (m *Memory) isOver(one *list.Element) bool {
	return m.o.Now().Sub(one.Value.(*entry).at) > Kept //nolint:forcetypeassert // nothing else is in the list
}

// forget forgets an identity, which may be nil. m.mu is held.
func (m *Memory) forget(one *list.Element) {
	if one == nil {
		return
	}
	e := m.order.Remove(one).(*entry) //nolint:forcetypeassert // nothing else is in the list
	delete(m.known, e.key)
	m.bytes -= e.bytes
}

// find returns the identity of a handle of this instance, nil for none.
func (m *Memory) find(key string) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.known[key]
	if one == nil || m.isOver(one) {
		return nil
	}
	return one.Value.(*entry) //nolint:forcetypeassert // nothing else is in the list
}

// Resolve returns the identity of a handle, and the names of the values that must not be shown.
// Parameters that are named select from the identity, and need the values that the list shows;
// none select all. Without a handle it returns the parameters themselves, none of which may be
// a mask.
func (m *Memory) Resolve(handle string, named map[string]string) (identity map[string]string, masked []string, err error) {
	if handle == "" {
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if err := m.Check(name, named[name]); err != nil {
				return nil, nil, err
			}
		}
		return named, nil, nil
	}
	key, instance, _ := strings.Cut(handle, "@")
	switch {
	case len(handle) > maxHandle || len(key) != digits:
		return nil, nil, fmt.Errorf("%.40q is no handle; want one of a row with masked values, from top or the list of bans", handle)
	case instance != m.o.Instance:
		return nil, nil, fmt.Errorf("instance %.300q made this handle, and it alone knows the identity; ask it, or list the identities here", instance)
	}
	e := m.find(key)
	if e == nil {
		return nil, nil, errForgotten
	}
	if len(named) == 0 {
		named = e.shown
	}
	identity = make(map[string]string, len(named))
	for _, name := range slices.Sorted(maps.Keys(named)) {
		shown, known := e.shown[name]
		if !known || named[name] != shown {
			return nil, nil, fmt.Errorf("the identity of the handle has no %.100s=%.100s; want parameters as the list shows them, or none for all", name, named[name])
		}
		identity[name] = e.values[name]
		if shown != e.values[name] {
			masked = append(masked, name)
		}
	}
	return identity, masked, nil
}

// Check returns an error if a value of a parameter is a mask, with or without blanks around it,
// which conditions trim. At instances that show the values of the parameter, no value is.
func (m *Memory) Check(name, value string) error {
	if value = strings.TrimSpace(value); !trace.IsPseudonym(value) || m.o.Mask.Shows(name) {
		return nil
	}
	return fmt.Errorf("the value %s of %.100q is a mask, which stands for a value in lists; name the value itself, act on a row by its handle, or show the values of the parameter in lists by the setting decision_log_params", value, name)
}

// Hide returns an identity with masks instead of the values with these names, as far as the
// setting does not show them.
func (m *Memory) Hide(identity map[string]string, names []string) map[string]string {
	if len(names) == 0 {
		return identity
	}
	hidden := maps.Clone(identity)
	for _, name := range names {
		if value, known := hidden[name]; known && !m.o.Mask.Shows(name) {
			hidden[name] = m.o.Mask.Pseudonym(value)
		}
	}
	return hidden
}
