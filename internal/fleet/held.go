package fleet

import (
	"context"
	"errors"
	"os"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/rules"
)

// Held returns a content of the active version, or nil. It pauses as ctx does.
func (m *Member) Held(ctx context.Context, b Blob) []byte {
	m.mu.Lock()
	v := m.current
	var contents Contents
	if v != nil {
		contents = v.contents
	}
	m.mu.Unlock()
	if v == nil {
		return nil
	}
	if contents != nil {
		return contents[b.Sum]
	}
	if m.folder == "" || !isSum(b.Sum) {
		return nil
	}
	content, err := os.ReadFile(m.folder.path(b.Sum))
	if err != nil || blobOf(ctx, content) != b {
		return nil
	}
	return content
}

// Active returns the manifest of the active version, nil without one. It must not be
// changed.
func (m *Member) Active() *Manifest {
	if v := m.active(); v != nil {
		return v.manifest
	}
	return nil
}

// Known returns the highest number of a version that the instance has loaded.
func (m *Member) Known() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known
}

// errWriting reports that another instance writes a version back, which may fail.
var errWriting = errors.New("another instance is writing the version back")

// writeBack writes the active version to Redis, which has lost it, into the history: its
// number counts again, for instances that have not seen it, too. It does not bring it into
// force. One instance at a time does so; for others the error is errWriting.
func (m *Member) writeBack(ctx context.Context) error {
	r := m.o.Records
	v, value := m.activeRecord()
	ctx, cancel := context.WithTimeout(ctx, firstTimeout)
	defer cancel()
	err := r.client.SetArgs(ctx, r.keys.begin+"writer", m.id, goredis.SetArgs{Mode: "NX", TTL: firstTimeout}).Err()
	switch {
	case errors.Is(err, goredis.Nil):
		return errWriting
	case err != nil:
		return unavailable(err)
	}
	_, text, err := cutRecord(value)
	if err == nil {
		err = m.sendHeld(ctx, text)
	}
	if err != nil {
		return err
	}
	pipe := r.client.TxPipeline()
	for _, b := range v.manifest.Blobs() {
		pipe.Persist(ctx, r.keys.blob(b.Sum))
	}
	pipe.SetArgs(ctx, r.keys.version(v.manifest.Number), value, goredis.SetArgs{Mode: "NX"})
	pipe.ZAdd(ctx, r.keys.history, goredis.Z{Score: float64(v.manifest.Number), Member: v.manifest.Number})
	pipe.Del(ctx, r.keys.begin+"writer")
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, goredis.Nil) { // it is there
		return unavailable(err)
	}
	return nil
}

// activeRecord returns the current version, which must exist, and its record, which changes when
// a heartbeat shows another signature.
func (m *Member) activeRecord() (*version, []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current, m.current.value
}

// Changes returns the differences between two versions. A version that this instance has not
// loaded is read from Redis.
func (m *Member) Changes(ctx context.Context, from, to uint64) (*reload.Changes, error) {
	before, err := m.set(ctx, from)
	if err != nil {
		return nil, err
	}
	now, err := m.set(ctx, to)
	if err != nil {
		return nil, err
	}
	return changes(ctx, before, now)
}

// changes returns the differences between two sets. The error comes from ctx.
func changes(ctx context.Context, before, now *rules.Set) (*reload.Changes, error) {
	all := rules.ComparePausing(before, now, pace.Pauses(ctx))
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return reload.ChangesOf(all), nil
}

func (m *Member) set(ctx context.Context, number uint64) (*rules.Set, error) {
	if v := m.version(number); v != nil {
		return v.set, nil
	}
	v, err := m.load(ctx, job{number: number})
	if err != nil {
		return nil, err
	}
	return v.set, nil
}
