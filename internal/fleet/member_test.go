package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/rules"
)

// ruleText returns a rule file with one rule.
func ruleText(limit int) string {
	return fmt.Sprintf(`[dicts]
words : words.dat
[rules]
rule : [direct] [uid @ words] [] [result=2; return=9]
rule : [count] [act=vote] [time=60; count=%d] [result=2; return=101]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
[end]
`, limit)
}

// bundle returns a version with one rule and a word list.
func bundle(limit int) (*Manifest, Contents) {
	m, contents := &Manifest{Author: "ann", Note: "a test", Hash: "h", Rules: 2}, make(Contents)
	m.Files = []File{{"rules.conf", contents.add([]byte(ruleText(limit)))}}
	m.Lists = []ListFile{{"rules.conf", "words.dat", contents.add([]byte("bob\n"))}}
	return m, contents
}

const prefix = "fleet-test"

func openRecords(t *testing.T, url string, change ...func(*Options)) *Records {
	t.Helper()
	o := Options{Redis: redisconn.Options{URL: url}, Prefix: prefix, MaxVersionBytes: 1 << 20, Keep: 50}
	for _, f := range change {
		f(&o)
	}
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// instance is a running Member.
type instance struct {
	*Member
	stop func()
	mu   sync.Mutex
	sets []*rules.Set // in the order of their activation
}

func (i *instance) apply(set *rules.Set) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sets = append(i.sets, set)
}

func (i *instance) version() uint64 {
	if r := i.State().Release; r != nil {
		return r.Version
	}
	return 0
}

func startInstance(t *testing.T, r *Records, change ...func(*MemberOptions)) *instance {
	t.Helper()
	o := MemberOptions{Records: r, Rules: rules.Options{Timezone: "UTC"}, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&o)
	}
	i := &instance{Member: NewMember(o)}
	i.First(t.Context())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.Run(ctx, i.apply)
	}()
	i.stop = func() { cancel(); <-ended }
	t.Cleanup(i.stop)
	return i
}

// publish proposes a version and returns its number.
func publish(t *testing.T, r *Records, m *Manifest, contents Contents, change ...func(*Proposal)) (uint64, error) {
	t.Helper()
	ctx := t.Context()
	for _, b := range m.Blobs() {
		if err := r.WriteBlob(ctx, b, strings.NewReader(string(contents[b.Sum]))); err != nil {
			return 0, err
		}
	}
	now, err := r.Standing(ctx)
	if err != nil {
		return 0, err
	}
	m.Number, m.Before, m.Prefix, m.At = now.Last+1, now.InForce, r.o.Prefix, now.Now
	text, err := m.Encode()
	if err != nil {
		return 0, err
	}
	p := &Proposal{Manifest: text, Timeout: time.Minute}
	for _, f := range change {
		f(p)
	}
	_, err = r.Propose(ctx, p)
	return m.Number, err
}

// submit is publish, again if the instances are late with their heartbeats.
func submit(t *testing.T, r *Records, m *Manifest, contents Contents, change ...func(*Proposal)) (number uint64) {
	t.Helper()
	storetest.Eventually(t, func() (err error) {
		number, err = publish(t, r, m, contents, change...)
		return err
	})
	return number
}

// restore publishes the rules of an instance at this instance, as the API does.
func restore(t *testing.T, r *Records, i *instance, change ...func(*Proposal)) (number uint64) {
	t.Helper()
	storetest.Eventually(t, func() error {
		now, err := i.Standing(t.Context())
		if err != nil {
			return err
		}
		m := *i.Active()
		m.Number, m.Before, m.Prefix, m.At = now.Last+1, now.InForce, r.o.Prefix, now.Now
		text, err := m.Encode()
		if err != nil {
			return err
		}
		p := &Proposal{Manifest: text, Timeout: time.Minute}
		for _, f := range change {
			f(p)
		}
		number = m.Number
		_, _, err = i.Propose(t.Context(), p)
		return err
	})
	return number
}

// outcome waits for the end of a proposal.
func outcome(t *testing.T, r *Records, number uint64) (o Outcome) {
	t.Helper()
	storetest.Eventually(t, func() (err error) {
		if o, err = r.Outcome(t.Context(), number); err == nil && o.State == "pending" {
			err = errors.New("it is pending")
		}
		return err
	})
	return o
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	storetest.Eventually(t, func() error {
		if !done() {
			return errors.New(what)
		}
		return nil
	})
}

// livingInstances waits until Redis knows n live instances.
func livingInstances(t *testing.T, r *Records, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d live instances", n), func() bool {
		list, err := r.Instances(t.Context())
		live := 0
		for _, one := range list {
			if one.Live {
				live++
			}
		}
		return err == nil && live == n
	})
}

func mustPublish(t *testing.T, r *Records, m *Manifest, contents Contents) uint64 {
	t.Helper()
	number := submit(t, r, m, contents)
	if o := outcome(t, r, number); o.State != "in_force" {
		t.Fatalf("version %d: %+v; want it in force", number, o)
	}
	return number
}

func TestAllInstancesSwitchTogether(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	r := openRecords(t, server.URL())
	var all []*instance
	for range 4 {
		i := startInstance(t, r)
		if s := i.State(); s.Generation != 0 || !strings.Contains(s.Unready, "no rules have been published") {
			t.Fatalf("before the first version: %+v", s)
		}
		all = append(all, i)
	}
	livingInstances(t, r, 4)
	for want := uint64(1); want <= 3; want++ {
		m, contents := bundle(int(want))
		number := mustPublish(t, r, m, contents)
		if number != want {
			t.Fatalf("the number is %d; want %d", number, want)
		}
		var times []time.Time
		for _, i := range all {
			eventually(t, "the switch", func() bool { return i.version() == want })
			times = append(times, i.State().LoadedAt)
		}
		spread := slices.MaxFunc(times, time.Time.Compare).Sub(slices.MinFunc(times, time.Time.Compare))
		t.Logf("version %d: %v between the first and the last switch", want, spread)
		s := all[0].State()
		if s.Release.Author != "ann" || s.Release.Note != "a test" || s.LastError != "" || s.Unready != "" {
			t.Errorf("the state is %+v %+v", s, s.Release)
		}
		if want > 1 && (s.Changes == nil || s.Changes.Changed != 1) {
			t.Errorf("the changes are %+v; want one changed rule", s.Changes)
		}
	}
	// An instance that comes later starts with what is in force.
	if late := startInstance(t, r); late.version() != 3 {
		t.Errorf("a late instance has version %d; want 3", late.version())
	}
	list, err := r.Versions(t.Context())
	if err != nil || len(list) != 3 || list[0].Number != 3 || !list[0].InForce || list[1].InForce {
		t.Errorf("the history is %+v, %v", list, err)
	}
}

// A version that one instance cannot apply changes nothing anywhere.
func TestOneRefusalChangesNothing(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	r := openRecords(t, server.URL())
	small := openRecords(t, server.URL(), func(o *Options) { o.MaxVersionBytes = 1024 })
	a := startInstance(t, r)
	b := startInstance(t, small)
	strict := startInstance(t, r, func(o *MemberOptions) { o.Rules.RequireEnd = true })
	livingInstances(t, r, 3)
	m, contents := bundle(1)
	mustPublish(t, r, m, contents)
	eventually(t, "the first version", func() bool { return a.version() == 1 && b.version() == 1 && strict.version() == 1 })

	large, contents := bundle(2)
	large.Lists[0].Blob = contents.add([]byte(strings.Repeat("word\n", 1000)))
	number := submit(t, r, large, contents)
	o := outcome(t, r, number)
	if o.State != "refused" || !strings.Contains(o.Detail, b.id) || !strings.Contains(o.Detail, "max_version_bytes") {
		t.Errorf("a version above the bound of one instance: %+v", o)
	}

	cut, contents := bundle(3)
	cut.Files[0].Blob = contents.add([]byte(strings.TrimSuffix(ruleText(3), "[end]\n")))
	number = submit(t, r, cut, contents)
	o = outcome(t, r, number)
	if o.State != "refused" || !strings.Contains(o.Detail, strict.id) || !strings.Contains(o.Detail, "[end]") {
		t.Errorf("a version that one instance refuses by its setting: %+v", o)
	}
	for _, i := range []*instance{a, b, strict} {
		if s := i.State(); i.version() != 1 || s.Unready != "" {
			t.Errorf("after the refusals: %+v", s)
		}
	}
	// With a quorum of two it comes into force, and the third is not ready.
	number = submit(t, r, cut, contents, func(p *Proposal) { p.Quorum = 2 })
	if o := outcome(t, r, number); o.State != "in_force" {
		t.Fatalf("with a quorum: %+v", o)
	}
	eventually(t, "the switch of two", func() bool { return a.version() == number && b.version() == number })
	eventually(t, "the third is not ready", func() bool { return strings.Contains(strict.State().Unready, "[end]") })
	if strict.version() != 1 {
		t.Errorf("the third decides by version %d", strict.version())
	}
}

// Of two publishers at once one wins, and the other learns of it.
func TestSecondPublisherConflicts(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	r := openRecords(t, server.URL())
	startInstance(t, r)
	livingInstances(t, r, 1)
	m, contents := bundle(1)
	mustPublish(t, r, m, contents)
	start := make(chan struct{})
	results := make(chan error, 2)
	now, err := r.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for limit := range 2 {
		m, contents := bundle(10 + limit)
		for _, b := range m.Blobs() {
			if err := r.WriteBlob(t.Context(), b, strings.NewReader(string(contents[b.Sum]))); err != nil {
				t.Fatal(err)
			}
		}
		m.Number, m.Before, m.Prefix = now.Last+1, now.InForce, prefix
		text, _ := m.Encode()
		go func() {
			<-start
			_, err := r.Propose(context.Background(), &Proposal{Manifest: text, Timeout: time.Minute})
			results <- err
		}()
	}
	close(start)
	first, second := <-results, <-results
	if first != nil {
		first, second = second, first
	}
	var conflict *ConflictError
	if first != nil || !errors.As(second, &conflict) {
		t.Fatalf("%v and %v; want one success and one conflict", first, second)
	}
	outcome(t, r, now.Last+1)
	// A publisher that compared with the former version.
	old, contents := bundle(20)
	text := func() []byte {
		old.Number, old.Before, old.Prefix = now.Last+2, now.InForce, prefix
		text, _ := old.Encode()
		return text
	}()
	for _, b := range old.Blobs() {
		_ = r.WriteBlob(t.Context(), b, strings.NewReader(string(contents[b.Sum])))
	}
	if _, err := r.Propose(t.Context(), &Proposal{Manifest: text, Timeout: time.Minute}); !errors.As(err, &conflict) || conflict.InForce != now.Last+1 {
		t.Errorf("an overtaken publisher: %v", err)
	}
}

// A version that Redis has lost is written back although the first attempt does not succeed: here
// another instance, which then ended, had begun to.
func TestLostVersionIsWrittenBackAgain(t *testing.T) {
	t.Parallel()
	r := openRecords(t, storetest.StartServer(t).URL())
	i := startInstance(t, r)
	livingInstances(t, r, 1)
	m, contents := bundle(1)
	mustPublish(t, r, m, contents)
	eventually(t, "the version", func() bool { return i.version() == 1 })
	if err := r.client.Set(t.Context(), r.keys.begin+"writer", "another", 2*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	if err := r.client.Del(t.Context(), r.keys.head, r.keys.history, r.keys.version(1)).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the version is in the history again", func() bool {
		now, err := r.Standing(t.Context())
		return err == nil && now.Last == 1 && now.InForce == 0
	})
}

// However many versions are in the history, a list reads some of them, and the one in force.
func TestListedVersionsAreBounded(t *testing.T) {
	t.Parallel()
	r := openRecords(t, storetest.StartServer(t).URL(), keepTwo)
	i := startInstance(t, r)
	livingInstances(t, r, 1)
	m, contents := bundle(1)
	mustPublish(t, r, m, contents)
	eventually(t, "the version", func() bool { return i.version() == 1 })
	var forged []goredis.Z
	for n := range 500 {
		forged = append(forged, goredis.Z{Score: float64(n + 2), Member: n + 2})
	}
	if err := r.client.ZAdd(t.Context(), r.keys.history, forged...).Err(); err != nil {
		t.Fatal(err)
	}
	list, err := r.Versions(t.Context())
	if last := len(list) - 1; err != nil || last != 2+unpruned || !list[last].InForce || list[last].Number != 1 {
		t.Errorf("%d versions, %v; want %d, with the one in force", len(list), err, 3+unpruned)
	}
}

// A flushed Redis changes nothing, and the rules can be published again.
func TestFlushedRedis(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	r := openRecords(t, server.URL())
	dir := t.TempDir()
	i := startInstance(t, r, func(o *MemberOptions) { o.StateDir = dir })
	other := startInstance(t, r)
	livingInstances(t, r, 2)
	for limit := range 2 {
		m, contents := bundle(limit + 1)
		mustPublish(t, r, m, contents)
	}
	eventually(t, "the switch", func() bool { return i.version() == 2 && other.version() == 2 })
	client := server.Client()
	defer client.Close()
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for _, one := range []*instance{i, other} {
		eventually(t, "it says so", func() bool {
			s := one.State()
			return strings.Contains(s.LastError, "flushed") && s.Fault == reload.FaultLost && s.Unready == "" && one.version() == 2
		})
	}
	livingInstances(t, r, 2)
	for _, b := range i.Active().Blobs() {
		if got := other.Held(t.Context(), b); string(got) != string(i.Held(t.Context(), b)) || got == nil {
			t.Errorf("an instance without state_dir has %d bytes of a blob of %d", len(got), b.Size)
		}
	}
	// A program that has seen no version counts from there, too.
	eventually(t, "the version is in the history again", func() bool {
		now, err := r.Standing(t.Context())
		return err == nil && now.Last == 2 && now.InForce == 0
	})
	if number := restore(t, r, i); number != 3 {
		t.Errorf("the number after the flush is %d; want 3", number)
	}
	eventually(t, "the restored version", func() bool {
		return i.version() == 3 && other.version() == 3 && i.State().LastError == "" && i.State().Fault == reload.FaultRules
	})

	// With Redis away, an instance with state_dir starts with the last version.
	i.stop()
	server.Kill()
	again := startInstance(t, openRecords(t, server.URL()), func(o *MemberOptions) { o.StateDir = dir })
	if s := again.State(); again.version() != 3 || !s.Restored || s.Unready != "" || s.Fault != reload.FaultAway {
		t.Errorf("after a start without Redis: %+v", s)
	}
	// One without it has no rules.
	empty := startInstance(t, openRecords(t, server.URL()))
	if s := empty.State(); s.Generation != 0 || !strings.Contains(s.Unready, "Redis does not answer") {
		t.Errorf("after a start without Redis and state_dir: %+v", s)
	}
}
