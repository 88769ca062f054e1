package fleet

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/storetest"
)

// largestNumber is the largest number of a version.
const largestNumber = "9007199254740991"

// publisher publishes with a key.
type publisher struct {
	key ed25519.PrivateKey
	r   *Records
}

func newPublisher(t *testing.T, server *storetest.Server) *publisher {
	t.Helper()
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &publisher{key, openRecords(t, server.URL(), func(o *Options) { o.PublicKey = public })}
}

// newFleet starts a publisher with a Redis of its own and an instance, and publishes the first
// version.
func newFleet(t *testing.T, options ...func(*MemberOptions)) (p *publisher, i *instance, first uint64) {
	t.Helper()
	p = newPublisher(t, storetest.StartServer(t))
	i = startInstance(t, p.r, options...)
	livingInstances(t, p.r, 1)
	return p, i, p.publish(t, 1, i)
}

// propose proposes a version with a limit, and returns its number and its manifest.
func (p *publisher) propose(t *testing.T, limit int, change ...func(*Proposal)) (number uint64, manifest []byte) {
	t.Helper()
	number = mustPropose(t, p.r, limit, append(change, func(one *Proposal) {
		manifest = one.Manifest
		one.Signature = Sign(p.key, one.Purpose(), manifest)
	})...)
	return number, manifest
}

// reaches waits until the outcome of a version has a state.
func (p *publisher) reaches(t *testing.T, number uint64, state string) {
	t.Helper()
	storetest.Eventually(t, func() error {
		if o, err := p.r.Outcome(t.Context(), number); err != nil || o.State != state {
			return fmt.Errorf("version %d: %+v, %w; want %s", number, o, err, state)
		}
		return nil
	})
}

// publish brings a version with a limit into force.
func (p *publisher) publish(t *testing.T, limit int, all ...*instance) uint64 {
	t.Helper()
	number, manifest := p.propose(t, limit)
	p.reaches(t, number, "ready")
	if err := p.r.Enforce(t.Context(), number, Sign(p.key, InForce, manifest)); err != nil {
		t.Fatal(err)
	}
	everywhere(t, p.r, number, all...)
	return number
}

// lapse makes a proposal one that lapsed.
func (p *publisher) lapse(t *testing.T, number uint64) {
	t.Helper()
	if err := p.r.client.HSet(t.Context(), p.r.keys.proposal, "deadline", 1).Err(); err != nil {
		t.Fatal(err)
	}
	p.reaches(t, number, "lapsed")
}

// name makes a number the one in force, as who can write to Redis can.
func (p *publisher) name(t *testing.T, number uint64) {
	t.Helper()
	command(t, p.r.client, "HSET", p.r.keys.head, "in_force", number, "at", time.Now().UnixMilli())
	command(t, p.r.client, "HDEL", p.r.keys.head, "sum")
}

func command(t *testing.T, client goredis.UniversalClient, words ...any) {
	t.Helper()
	if err := client.Do(t.Context(), words...).Err(); err != nil {
		t.Fatalf("%v: %v", words, err)
	}
}

// attack is what somebody does who can write to Redis, and what the instances then say.
type attack struct {
	do   func(t *testing.T, p *publisher)
	want string
}

// Nothing but what the publisher signed as in force is ever in force, whatever is written to
// Redis; the instances say why, keep what they have and stay ready; one that starts has
// nothing; and publishing goes on.
func TestWriterCannotBringIntoForce(t *testing.T) {
	t.Parallel()
	var group sync.WaitGroup // most of the time they wait
	defer group.Wait()
	for name, c := range map[string]attack{
		"a proposal that lapsed": {func(t *testing.T, p *publisher) {
			number, _ := p.propose(t, 20)
			p.reaches(t, number, "ready")
			p.lapse(t, number)
			p.name(t, number)
		}, "not signed as the one in force"},
		"a proposal that was refused": {func(t *testing.T, p *publisher) {
			m, contents := bundle(20)
			m.Files[0].Blob = contents.add([]byte("[rules]\n"))
			number := submit(t, p.r, m, contents, func(one *Proposal) { one.Signature = Sign(p.key, ToPublish, one.Manifest) })
			p.reaches(t, number, "refused")
			p.name(t, number)
		}, "this instance does not take it"},
		"a proposal that waits for its publisher": {func(t *testing.T, p *publisher) {
			number, _ := p.propose(t, 20)
			p.reaches(t, number, "ready")
			command(t, p.r.client, "HSET", p.r.keys.proposal, "signed", 0) // the scripts then bring it into force
		}, "not signed as the one in force"},
		"a trial": {func(t *testing.T, p *publisher) {
			number, _ := p.propose(t, 20, func(one *Proposal) { one.Trial = &TrialOptions{Length: time.Hour, Then: "ask"} })
			p.reaches(t, number, "trial")
			p.name(t, number)
		}, "not signed as the one in force"},
		"a trial whose options were changed": {func(t *testing.T, p *publisher) {
			number, _ := p.propose(t, 20, func(one *Proposal) { one.Trial = &TrialOptions{Length: time.Hour, Then: "keep"} })
			p.reaches(t, number, "trial")
			command(t, p.r.client, "HSET", p.r.keys.trial, "follow", "enforce", "until", 1, "signed", 0)
		}, "not signed as the one in force"},
		"a trial that was to be enforced and was aborted": {func(t *testing.T, p *publisher) {
			number, _ := p.propose(t, 20, func(one *Proposal) {
				one.Trial = &TrialOptions{Length: time.Hour, Then: "enforce", AbortAbove: 1}
			})
			p.reaches(t, number, "trial")
			if _, err := p.r.StopTrial(t.Context(), "an operator stopped it"); err != nil {
				t.Fatal(err)
			}
			p.name(t, number)
		}, "not signed as the one in force"},
		"an unsigned version": {func(t *testing.T, p *publisher) {
			p.write(t, 20, func([]byte) string { return "" })
		}, "it is not signed"},
		"a version of another key": {func(t *testing.T, p *publisher) {
			other := ed25519.NewKeyFromSeed(make([]byte, 32))
			p.write(t, 20, func(text []byte) string { return Sign(other, InForce, text) })
		}, "not valid for publish_public_key"},
		"the signature of the version in force on another": {func(t *testing.T, p *publisher) {
			signature, _, _ := strings.Cut(p.r.client.Get(t.Context(), p.r.keys.version(1)).Val(), "\n")
			p.write(t, 20, func([]byte) string { return signature })
		}, "not valid for publish_public_key"},
		"a signature for another purpose": {func(t *testing.T, p *publisher) {
			p.write(t, 20, func(text []byte) string {
				return strings.Replace(Sign(p.key, ToPublish, text), "publish", "in-force", 1)
			})
		}, "not valid for publish_public_key"},
		"a signature of an earlier program version": {func(t *testing.T, p *publisher) {
			p.write(t, 20, func(text []byte) string { return Sign(p.key, earlier, text)[len(earlier)+1:] })
		}, "signed by an earlier program version"},
		"a number without a version": {func(t *testing.T, p *publisher) {
			command(t, p.r.client, "HSET", p.r.keys.head, "in_force", largestNumber)
		}, "is not in Redis"},
		"a key of another type": {func(t *testing.T, p *publisher) {
			command(t, p.r.client, "LPUSH", p.r.keys.version(7), "x")
			p.name(t, 7)
		}, ""},
	} {
		group.Go(func() {
			t.Run(name, func(t *testing.T) { c.check(t) })
		})
	}
}

// check attacks a fleet of one instance.
func (a attack) check(t *testing.T) {
	p, i, first := newFleet(t, func(o *MemberOptions) { o.StateDir = t.TempDir() })
	a.do(t, p)
	eventually(t, a.want, func() bool { return strings.Contains(i.State().LastError, a.want) })
	late := startInstance(t, p.r, func(o *MemberOptions) { o.StateDir = t.TempDir() })
	if s := late.State(); s.Generation != 0 {
		t.Errorf("an instance that starts takes version %d", late.version())
	}
	if s := i.State(); s.Unready != "" || i.version() != first {
		t.Errorf("version %d, %+v", i.version(), s)
	}
	livingInstances(t, p.r, 2)
	p.publish(t, 3, i, late)
}

// A proposal that waits does so for ten minutes at most, whatever Redis says.
func TestWriterCannotKeepAProposal(t *testing.T) {
	t.Parallel()
	p, i, _ := newFleet(t)
	number, _ := p.propose(t, 2)
	p.reaches(t, number, "ready")
	command(t, p.r.client, "HSET", p.r.keys.proposal, "deadline", largestNumber)
	p.reaches(t, number, "lapsed")
	p.publish(t, 3, i)
}

// write writes a version with a limit as the one in force.
func (p *publisher) write(t *testing.T, limit int, sign func(manifest []byte) string) {
	t.Helper()
	m, contents := bundle(limit)
	m.Number, m.Before, m.Prefix = 7, 1, prefix
	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for sum, content := range contents {
		command(t, p.r.client, "HSET", p.r.keys.blob(sum), "0", content)
	}
	command(t, p.r.client, "SET", p.r.keys.version(7), record(text, sign(text)))
	p.name(t, 7)
}

// The version of a signed trial comes into force at its end if its publisher still signs it.
func TestSignedTrialIsEnforced(t *testing.T) {
	t.Parallel()
	p, i, _ := newFleet(t)
	number, manifest := p.propose(t, 20, func(one *Proposal) { one.Trial = &TrialOptions{Length: time.Second, Then: "enforce"} })
	p.reaches(t, number, "trial")
	p.reaches(t, number, "ready")
	if err := p.r.Enforce(t.Context(), number, Sign(p.key, InForce, manifest)); err != nil {
		t.Fatal(err)
	}
	everywhere(t, p.r, number, i)
}

// A signed trial does not go on after its time, whatever Redis says.
func TestSignedTrialEnds(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, storetest.StartServer(t))
	m := NewMember(MemberOptions{Records: p.r})
	options := TrialOptions{Length: time.Minute, Then: "ask"}
	at := time.Now()
	v := &version{manifest: &Manifest{At: at}, purpose: ToTry(&options)}
	if !m.mayTry(v, at.Add(maxTimeout)) || m.mayTry(v, at.Add(maxTimeout+2*time.Minute)) {
		t.Error("the time of a trial is another than its signature states")
	}
	if v.purpose = ToPublish; m.mayTry(v, at) {
		t.Error("a version was tried that was signed to be published")
	}
}

// An older version that was in force is not taken again, also after a start: state_dir
// remembers. Only an instance whose state_dir is empty cannot know better.
func TestWriterCannotGoBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, i, first := newFleet(t, func(o *MemberOptions) { o.StateDir = dir })
	second := p.publish(t, 2, i)
	p.name(t, first)
	eventually(t, "it says so", func() bool { return strings.Contains(i.State().LastError, "has seen version 2") })
	if s := i.State(); i.version() != second || s.Unready != "" {
		t.Errorf("version %d, %+v", i.version(), s)
	}
	i.stop()
	again := startInstance(t, p.r, func(o *MemberOptions) { o.StateDir = dir })
	if s := again.State(); again.version() != second || s.Unready != "" || !strings.Contains(s.LastError, "has seen version 2") {
		t.Errorf("after a start: version %d, %+v", again.version(), s)
	}
	late := startInstance(t, p.r, func(o *MemberOptions) { o.StateDir = t.TempDir() })
	if late.version() != first {
		t.Errorf("an instance without a memory has version %d; want %d", late.version(), first)
	}
	livingInstances(t, p.r, 2)
	p.publish(t, 3, again, late)
}

// A state_dir that does not remember is an error at the start.
func TestForgetfulStateDir(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second time it is there
		if err := CheckStateDir(dir); err != nil {
			t.Error(err)
		}
	}
	f := folderIn(dir)
	if err := errors.Join(f.saveHighest(7), CheckStateDir(dir)); err != nil || f.highest() != 7 {
		t.Errorf("%d, %v; want 7", f.highest(), err)
	}
	if err := f.write(highestFile, []byte("7x")); err != nil {
		t.Fatal(err)
	}
	if err := CheckStateDir(dir); err == nil || !strings.Contains(err.Error(), "not the number of a version") {
		t.Error(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if CheckStateDir(file) == nil {
		t.Error("a file was taken for a folder")
	}
}

// A version that is saved again replaces contents that were damaged meanwhile.
func TestSavingMendsDamage(t *testing.T) {
	f := folderIn(t.TempDir())
	_, contents := bundle(20)
	for _, damage := range []func(content []byte) []byte{
		func(content []byte) []byte { return bytes.ToUpper(content) },
		func(content []byte) []byte { return content[:len(content)/2] },
		func([]byte) []byte { return nil },
	} {
		if err := f.save([]byte("a version"), contents); err != nil {
			t.Fatal(err)
		}
		for sum, content := range contents {
			saved, err := os.ReadFile(f.path(sum))
			if err != nil || !bytes.Equal(saved, content) {
				t.Errorf("%q, %v; want %q", saved, err, content)
			}
			if err := os.WriteFile(f.path(sum), damage(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What an earlier program version signed and this instance had in force stays active after
// an upgrade, until it is published again.
func TestVersionOfAnEarlierSignature(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, storetest.StartServer(t))
	dir := t.TempDir()
	p.write(t, 20, func(text []byte) string { return Sign(p.key, earlier, text)[len(earlier)+1:] })
	value := []byte(p.r.client.Get(t.Context(), p.r.keys.version(7)).Val())
	_, contents := bundle(20)
	if err := folderIn(dir).save(value, contents); err != nil {
		t.Fatal(err)
	}
	i := startInstance(t, p.r, func(o *MemberOptions) { o.StateDir = dir })
	livingInstances(t, p.r, 1)
	eventually(t, "it says so", func() bool {
		s := i.State()
		return i.version() == 7 && s.Unready == "" && strings.Contains(s.LastError, "earlier program version") && strings.Contains(s.LastError, "version 7 stays active")
	})
	if number := p.publish(t, 3, i); number != 8 {
		t.Errorf("the number is %d; want 8", number)
	}
	if s := i.State(); s.LastError != "" {
		t.Errorf("%+v", s)
	}
}

// Publishing goes on with the number above the last version, whatever numbers are written to
// Redis, with and without a key, and after a flush.
func TestWriterCannotUseUpNumbers(t *testing.T) {
	t.Parallel()
	k := keysOf(prefix)
	var group sync.WaitGroup // most of the time they wait
	defer group.Wait()
	for name, words := range map[string][]any{
		"the last number":   {"HSET", k.head, "last", largestNumber},
		"one in force":      {"HSET", k.head, "in_force", largestNumber},
		"one in history":    {"ZADD", k.history, largestNumber, largestNumber},
		"a proposal":        {"HSET", k.proposal, "number", largestNumber, "deadline", largestNumber},
		"a trial":           {"HSET", k.trial, "number", largestNumber, "state", "running", "until", largestNumber},
		"an instance":       {"ZADD", k.instances, largestNumber, "ghost"},
		"an unreadable one": {"SET", k.version(9007199254740991), "-\nx"},
		"a copy":            nil,
	} {
		for _, isSigned := range []bool{false, true} {
			group.Go(func() {
				t.Run(fmt.Sprintf("%s, signed %v", name, isSigned), func(t *testing.T) { useUpNumbers(t, words, isSigned) })
			})
		}
	}
}

// useUpNumbers writes the last number and what words do to Redis. Without words it writes a
// copy of the first version with the largest number.
func useUpNumbers(t *testing.T, words []any, isSigned bool) {
	k := keysOf(prefix)
	server := storetest.StartServer(t)
	p := newPublisher(t, server)
	if !isSigned {
		p.r = openRecords(t, server.URL())
	}
	i := startInstance(t, p.r)
	livingInstances(t, p.r, 1)
	publish := func(limit int) uint64 {
		if isSigned {
			return p.publish(t, limit, i)
		}
		number := mustPropose(t, p.r, limit)
		everywhere(t, p.r, number, i)
		return number
	}
	publish(1)
	attack := func() {
		command(t, p.r.client, "HSET", k.head, "last", largestNumber)
		if words == nil {
			value := p.r.client.Get(t.Context(), k.version(1)).Val()
			command(t, p.r.client, "SET", k.version(9007199254740991), strings.Replace(value, `"number":1`, `"number":`+largestNumber, 1))
			return
		}
		command(t, p.r.client, words...)
	}
	attack()
	if number := publish(2); number != 2 {
		t.Errorf("the number is %d; want 2", number)
	}
	value := p.r.client.Get(t.Context(), k.version(2)).Val()
	command(t, p.r.client, "FLUSHALL")
	command(t, p.r.client, "SET", k.version(1), value) // for a copy
	attack()
	now, err := i.Standing(context.Background())
	if err != nil || now.Last != 2 || now.InForce != 0 {
		t.Errorf("after a flush: %+v, %v", now, err)
	}
	// Through the instance, which knows its version, publishing goes on from there.
	var manifest []byte
	number := restore(t, p.r, i, func(one *Proposal) {
		if manifest = one.Manifest; isSigned {
			one.Signature = Sign(p.key, one.Purpose(), manifest)
		}
	})
	if number != 3 {
		t.Errorf("the number after a flush is %d; want 3", number)
	}
	if isSigned {
		p.reaches(t, number, "ready")
		if err := p.r.Enforce(t.Context(), number, Sign(p.key, InForce, manifest)); err != nil {
			t.Fatal(err)
		}
	}
	everywhere(t, p.r, 3, i)
}

// Without a key, who can write to Redis changes the rules.
func TestWriterWithoutAKey(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	p := &publisher{r: openRecords(t, server.URL())}
	i := startInstance(t, p.r)
	livingInstances(t, p.r, 1)
	everywhere(t, p.r, mustPropose(t, p.r, 1), i)
	p.write(t, 20, func([]byte) string { return "" })
	eventually(t, "the version of the writer", func() bool { return i.version() == 7 })
}

// withAndWithoutAKey runs a test for a fleet with a key and for one without, which has one instance
// and the version 1 in force.
func withAndWithoutAKey(t *testing.T, test func(t *testing.T, p *publisher, i *instance, publish func(limit int))) {
	for _, isSigned := range []bool{false, true} {
		t.Run(fmt.Sprintf("signed %v", isSigned), func(t *testing.T) {
			t.Parallel()
			server := storetest.StartServer(t)
			p := newPublisher(t, server)
			if !isSigned {
				p.r = openRecords(t, server.URL())
			}
			i := startInstance(t, p.r)
			livingInstances(t, p.r, 1)
			publish := func(limit int) {
				t.Helper()
				if isSigned {
					p.publish(t, limit, i)
					return
				}
				everywhere(t, p.r, mustPropose(t, p.r, limit), i)
			}
			publish(1)
			test(t, p, i, publish)
		})
	}
}

// While the proposal or the head has another type, nothing can be published; the instances keep what
// they have, and publishing goes on once the key is deleted.
func TestWriterOfKeysOfAnotherType(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"proposal", "head"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withAndWithoutAKey(t, func(t *testing.T, p *publisher, i *instance, again func(int)) {
				key := p.r.keys.begin + name
				command(t, p.r.client, "SET", key, "x")
				m, contents := bundle(2)
				sign := func(one *Proposal) { one.Signature = Sign(p.key, ToPublish, one.Manifest) }
				if _, err := publish(t, p.r, m, contents, sign); err == nil {
					t.Error("a version was proposed")
				}
				if s := i.State(); i.version() != 1 || s.Unready != "" {
					t.Errorf("version %d, %+v", i.version(), s)
				}
				command(t, p.r.client, "DEL", key)
				livingInstances(t, p.r, 1)
				again(3)
			})
		})
	}
}

// Without the contents of the version in force, an instance that starts with an empty state_dir is
// not ready and says which one is missing; one that has loaded it stays ready.
func TestWriterDeletesContents(t *testing.T) {
	t.Parallel()
	withAndWithoutAKey(t, func(t *testing.T, p *publisher, i *instance, _ func(int)) {
		for _, b := range i.Active().Blobs() {
			command(t, p.r.client, "DEL", p.r.keys.blob(b.Sum))
		}
		late := startInstance(t, p.r, func(o *MemberOptions) { o.StateDir = t.TempDir() })
		eventually(t, "it says so", func() bool { return strings.Contains(late.State().LastError, "blob ") })
		if s := late.State(); s.Unready == "" || s.Generation != 0 {
			t.Errorf("an instance that starts: %+v", s)
		}
		if s := i.State(); i.version() != 1 || s.Unready != "" {
			t.Errorf("version %d, %+v", i.version(), s)
		}
	})
}

// A heartbeat that nobody sent is in the list of instances.
func TestWriterOfHeartbeats(t *testing.T) {
	t.Parallel()
	withAndWithoutAKey(t, func(t *testing.T, p *publisher, i *instance, _ func(int)) {
		const forger = "ffffffffffff"
		beats := p.r.keys.begin + "beats"
		own := p.r.client.HGet(t.Context(), beats, i.id).Val()
		command(t, p.r.client, "HSET", beats, forger, strings.NewReplacer(i.id, forger, `"host":""`, `"host":"forged"`).Replace(own))
		command(t, p.r.client, "ZADD", p.r.keys.instances, time.Now().UnixMilli(), forger)
		list, err := p.r.Instances(t.Context())
		if err != nil || !slices.ContainsFunc(list, func(one Instance) bool { return one.ID == forger && one.Host == "forged" }) {
			t.Errorf("%+v, %v; want the forged one, too", list, err)
		}
	})
}

// With a key, who can write to Redis still prevents publishing, here by ending each proposal,
// and causes it although an instance has not answered: the publisher goes by the answers that
// Redis has.
func TestWriterDelaysAndHastens(t *testing.T) {
	t.Parallel()
	p, i, first := newFleet(t)
	number, manifest := p.propose(t, 2)
	command(t, p.r.client, "DEL", p.r.keys.proposal)
	if err := p.r.Enforce(t.Context(), number, Sign(p.key, InForce, manifest)); err != nil {
		t.Fatal(err)
	}
	if o, err := p.r.Outcome(t.Context(), number); err != nil || o.State != "unknown" {
		t.Errorf("%+v, %v", o, err)
	}
	everywhere(t, p.r, first, i)

	strict := startInstance(t, p.r, func(o *MemberOptions) { o.Rules.RequireEnd = true })
	livingInstances(t, p.r, 2)
	everywhere(t, p.r, first, i, strict)
	m, contents := bundle(3)
	m.Files[0].Blob = contents.add([]byte(strings.TrimSuffix(ruleText(3), "[end]\n")))
	storetest.Eventually(t, func() error {
		number = submit(t, p.r, m, contents, func(one *Proposal) { manifest, one.Signature = one.Manifest, Sign(p.key, ToPublish, one.Manifest) })
		command(t, p.r.client, "HSET", p.r.keys.proposal, "quorum", 1) // instead of all
		for {
			o, err := p.r.Outcome(t.Context(), number)
			if err != nil || o.State != "pending" && o.State != "ready" {
				return fmt.Errorf("%+v, %w", o, err)
			}
			if o.State == "ready" {
				return p.r.Enforce(t.Context(), number, Sign(p.key, InForce, manifest))
			}
		}
	})
	eventually(t, "one has the version, and the other is not ready", func() bool {
		return i.version() == number && strings.Contains(strict.State().Unready, "[end]")
	})
}

// Who can write to Redis decides what the report of a trial says, and with it whether the
// trial is aborted.
func TestWriterForgesTrials(t *testing.T) {
	t.Parallel()
	p, _, _ := newFleet(t)
	number, _ := p.propose(t, 2, func(one *Proposal) {
		one.Trial = &TrialOptions{Length: time.Hour, Then: "enforce", AbortAbove: 1}
	})
	p.reaches(t, number, "trial")
	if err := p.r.WriteTally(t.Context(), "forged", &Tally{Number: number, Requests: 5000, NewlyRefused: 5000, Report: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if got := lastTrial(t, p.r); got.State != "aborted" {
		t.Errorf("%+v", got)
	}
}
