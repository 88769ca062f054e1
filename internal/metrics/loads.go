package metrics

import (
	"strconv"
	"time"
)

// Loaded records that a generation with this content hash and number of rules
// became active.
func (m *Metrics) Loaded(generation uint64, hash string, rules int, at time.Time) {
	m.generation.Set(float64(generation))
	m.hash.Reset()
	m.hash.WithLabelValues(hash).Set(1)
	m.active.Set(float64(rules))
	m.loadedAt.Set(seconds(at))
	m.reloadOK.Set(1)
	m.reloads.WithLabelValues(outcomeOK).Inc()
}

// Published records which published version is active.
func (m *Metrics) Published(version uint64, author, note string) {
	m.published.Reset()
	m.published.WithLabelValues(strconv.FormatUint(version, 10), author, note).Set(1)
}

// Reloaded counts what a reload changed: rules that were added, removed or changed, and
// entries of word lists that were added or removed.
func (m *Metrics) Reloaded(added, removed, changed, entriesAdded, entriesRemoved int) {
	m.changes.WithLabelValues(changeAdded).Add(float64(added))
	m.changes.WithLabelValues(changeRemoved).Add(float64(removed))
	m.changes.WithLabelValues(changeChanged).Add(float64(changed))
	m.entries.WithLabelValues(changeAdded).Add(float64(entriesAdded))
	m.entries.WithLabelValues(changeRemoved).Add(float64(entriesRemoved))
}

// The kinds of changes by a reload.
const (
	changeAdded   = "added"
	changeRemoved = "removed"
	changeChanged = "changed"
)

// Restoring records whether the active rules were saved by an earlier run.
func (m *Metrics) Restoring(is bool) { m.restored.Set(number(is)) }

// Refused records that rule files were invalid, and older rules stay active.
func (m *Metrics) Refused(at time.Time) {
	m.reloadOK.Set(0)
	m.failedAt.Set(seconds(at))
	m.reloads.WithLabelValues(outcomeRefused).Inc()
}

// Restored records that the files match the active rules again after they had
// been invalid.
func (m *Metrics) Restored() { m.reloadOK.Set(1) }
