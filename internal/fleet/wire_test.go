package fleet

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store/storetest"
)

// What instances of other program versions read in Redis. A change here needs another
// format of manifests, or a form that they ignore: during an upgrade both versions run in
// one fleet.
const (
	wireManifest = `{"format":1,"prefix":"fleet-test","number":12,"before":11,"hash":"h","author":"ann","note":"a test",` +
		`"at":"2026-11-23T03:00:00Z","program":"v1.2.3","rules":2,` +
		`"files":[{"name":"rules.conf","sha256":"8cf27224b2ec19768dd3542044bbf94885b275fb94a04a6de66d2922404e267c","size":223}],` +
		`"lists":[{"source":"rules.conf","path":"words.dat","sha256":"1a1707bb54e5fb4deddd19f07adcb4f1e022ca7879e3c8348da8d4fa496ae8e2","size":4}]}`
	wireSignature = "in-force Qsz7FodkOGnpQviY+C5jk4J+e4jEp5/kIkjcE+ReL9Ha/j2LRzIWFdn46goWdglv9AeQrFxugPkS3KOGtUtUCw=="
	wireInstance  = `{"id":"0123456789ab","host":"h1","pid":7,"program_version":"v1.2.3","version":12,"hash":"h",` +
		`"since":"2026-11-23T03:00:00Z","state":"ready","store":"redis","last_error":"","modes":{"extauthz":"enforce"}}`
)

func TestWireForm(t *testing.T) {
	at := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	m, _ := bundle(1)
	m.Prefix, m.Number, m.Before, m.At, m.Program = prefix, 12, 11, at, "v1.2.3"
	text, err := m.Encode()
	if err != nil || string(text) != wireManifest {
		t.Errorf("%v: a manifest is\n%s\nwant\n%s", err, text, wireManifest)
	}
	if got := Sign(ed25519.NewKeyFromSeed(make([]byte, 32)), InForce, text); got != wireSignature {
		t.Errorf("its signature is %s; want %s", got, wireSignature)
	}
	one := Instance{
		ID: "0123456789ab", Host: "h1", PID: 7, Program: "v1.2.3", Version: 12, Hash: "h", Since: at, State: "ready",
		Store: "redis", Modes: map[string]string{"extauthz": "enforce"}, Live: true,
	}
	if text, err := json.Marshal(&one); err != nil || string(text) != wireInstance {
		t.Errorf("%v: an instance is\n%s\nwant\n%s", err, text, wireInstance)
	}
	// A newer program says more.
	one.AgeMS = 10
	newer := strings.Replace(wireInstance, `{"id"`, `{"new":{"a":[1]},"id"`, 1)
	if got := instancesOf([]string{one.ID, "10", newer}); len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(one) {
		t.Errorf("%+v; want %+v", got, one)
	}
}

// wireKeys are the keys of published rules and a trial, with the fields that the scripts of
// all versions share.
const wireKeys = `beats: hash
blob:SUM: hash 0
counts: hash refused:ID requests:ID
head: hash at before in_force last sum
history: zset
instances: zset
outcome:1: hash at detail state
outcome:2: hash at detail state
reports: hash
trial: hash abort before began blobs detail follow number quorum seen signed state sum until
version:1: string
version:2: string`

func TestWireKeys(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	r := openRecords(t, server.URL())
	var trial tried
	i := startInstance(t, r, func(o *MemberOptions) { o.Try = trial.try })
	livingInstances(t, r, 1)
	everywhere(t, r, mustPropose(t, r, 1), i)
	number := mustPropose(t, r, 2, func(p *Proposal) { p.Trial = &TrialOptions{Length: time.Hour, Then: "keep"} })
	eventually(t, "the trial", func() bool { return trial.Load() == number })
	if err := i.WriteTally(t.Context(), &Tally{Number: number, Report: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.StopTrial(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, key := range keys {
		name := strings.TrimPrefix(key, r.keys.begin)
		if strings.HasPrefix(name, "blob:") {
			name = "blob:SUM"
		}
		line := name + ": " + client.Type(t.Context(), key).Val()
		if strings.HasSuffix(line, "hash") && name != "beats" && name != "reports" {
			fields := client.HKeys(t.Context(), key).Val()
			slices.Sort(fields)
			line += " " + strings.Join(fields, " ")
		}
		lines = append(lines, strings.ReplaceAll(line, i.id, "ID"))
	}
	slices.Sort(lines)
	if got := strings.Join(slices.Compact(lines), "\n"); got != wireKeys {
		t.Errorf("the keys are\n%s\nwant\n%s", got, wireKeys)
	}
}

// An older program that brings a version into force does not write its sum: instances then
// go by the number alone.
func TestVersionOfAnOlderProgram(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	r := openRecords(t, server.URL())
	i := startInstance(t, r)
	livingInstances(t, r, 1)
	everywhere(t, r, mustPropose(t, r, 1), i)
	m, contents := bundle(2)
	m.Number, m.Before, m.Prefix = 2, 1, prefix
	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for sum, content := range contents {
		if err := client.HSet(t.Context(), r.keys.blob(sum), "0", content).Err(); err != nil {
			t.Fatal(err)
		}
	}
	inForce(t, client, 2, record(text, "")) // head still has the sum of version 1
	everywhere(t, r, 2, i)
}

// FuzzRecord checks that any text in the place of a version is read or refused, and that
// what was read can be written.
func FuzzRecord(f *testing.F) {
	m, _ := bundle(1)
	m.Number, m.Prefix = 7, prefix
	text, err := m.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(record(text, ""))
	f.Add(record([]byte(wireManifest), wireSignature))
	f.Add([]byte("-\n{\"format\":2,\"program\":\"v9\"}"))
	m.Files = append(m.Files, File{Name: "same", Blob: Blob{Sum: m.Files[0].Sum, Size: -1}})
	if text, err = m.Encode(); err != nil {
		f.Fatal(err)
	}
	f.Add(record(text, ""))
	open := &Records{o: Options{Prefix: prefix, MaxVersionBytes: 1 << 20}}
	signed := &Records{o: Options{Prefix: prefix, MaxVersionBytes: 1 << 20, PublicKey: make(PublicKey, ed25519.PublicKeySize)}}
	f.Fuzz(func(t *testing.T, value []byte) {
		number, _ := peekNumber(value) // 0 if there is none
		m, _, err := open.openRecord(number, value)
		if err != nil {
			return
		}
		for i := range m.Files {
			if b := m.Files[i].Blob; !isSum(b.Sum) || b.Size < 0 || b.Size > 1<<20 {
				t.Errorf("the blob %+v was accepted", b)
			}
		}
		for i := range m.Lists {
			if b := m.Lists[i].Blob; !isSum(b.Sum) || b.Size < 0 || b.Size > 1<<20 {
				t.Errorf("the blob %+v was accepted", b)
			}
		}
		text, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := open.openRecord(number, record(text, ""))
		if err != nil || fmt.Sprint(again.Blobs()) != fmt.Sprint(m.Blobs()) || again.Note != m.Note {
			t.Errorf("%v: %+v; want %+v", err, again, m)
		}
		if _, _, err := signed.openRecord(number, value); err == nil {
			t.Error("a record without a valid signature was accepted")
		}
	})
}

// FuzzSignature checks that a signature serves the purpose that it states, for the text that
// it was made for, and nothing else.
func FuzzSignature(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	public := key.Public().(PublicKey)
	manifest := []byte(wireManifest)
	made := map[string]Purpose{
		Sign(key, ToPublish, manifest): ToPublish,
		Sign(key, InForce, manifest):   InForce,
	}
	for _, o := range []TrialOptions{{time.Second, "ask", 0}, {15 * time.Minute, "enforce", 1.5}} {
		made[Sign(key, ToTry(&o), manifest)] = ToTry(&o)
	}
	for signature := range made {
		f.Add(signature)
		f.Add(strings.Replace(signature, "publish", "in-force", 1))
		f.Add(signature[:len(signature)-9] + "\r\n" + signature[len(signature)-9:])
	}
	f.Add(unsigned)
	f.Add(Sign(key, earlier, manifest)[len(earlier)+1:])
	f.Add("trial 900000 enforce 1e400 x")
	f.Fuzz(func(t *testing.T, signature string) {
		got, err := verify(public, manifest, signature)
		if want, isMade := made[signature]; got != want || isMade != (err == nil) {
			t.Errorf("%q is for %q, %v; want %q", signature, got, err, want)
		}
		if _, err := verify(public, append([]byte(" "), manifest...), signature); err == nil {
			t.Errorf("%q is one of another text", signature)
		}
		if o := Purpose(signature).trial(); o != nil && ToTry(o) != Purpose(signature) {
			t.Errorf("%q has the options %+v", signature, o)
		}
	})
}

// FuzzReplies checks that no reply of Redis, whatever its keys hold, is more than an error.
func FuzzReplies(f *testing.F) {
	f.Add("1700000000000\n12\n1700000000500\n12\n0\n0\n\n\n\n\n-\n12|12|")
	f.Add("12\nrunning\n\n1700000000000\n1700000900000\nkeep\n2.5")
	f.Add("\n\n0\n12\npending\n0123456789ab\nready\nab\n")
	f.Add("0123456789ab\n10\n" + wireInstance)
	f.Fuzz(func(t *testing.T, text string) {
		reply := strings.Split(text, "\n")
		if s, err := stateOf(reply, nil); err == nil && (s.InForce > maxNumber || s.Last > maxNumber || s.Proposed > maxNumber) {
			t.Errorf("%+v", s)
		}
		if o, err := outcomeOf(12, reply); err == nil && o.State == "" {
			t.Errorf("%+v", o)
		}
		if got, err := trialOf(reply); err == nil && got != nil && (got.Number == 0 || got.AbortAbove < 0 || got.AbortAbove > 100) {
			t.Errorf("%+v", got)
		}
		for _, one := range instancesOf(reply) {
			if _, err := json.Marshal(&one); err != nil {
				t.Error(err)
			}
		}
	})
}
