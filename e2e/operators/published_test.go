package operators_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// marked returns a rule file whose rule, word list and answers state one number, so that an
// answer by parts of two versions shows.
func marked(h *rig.Fixture, n int) string {
	h.Helper()
	h.File(fmt.Sprintf("words-%d.dat", n), fmt.Sprintf("ann\nword%d\n", n))
	return h.File(fmt.Sprintf("rules-%d.conf", n), fmt.Sprintf(`[dicts]
words : words-%[1]d.dat
[rules]
rule : [direct] [uid @ words] [] [result=2; return=%[1]d]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10, "Str_reason":"rules %[1]d"}
`, n))
}

// fleet starts n instances on published rules in one Redis.
func fleet(h *rig.Fixture, n int, args ...string) []*e2e.Koalagate {
	h.Helper()
	redis := h.Redis()
	list := make([]*e2e.Koalagate, n)
	for i := range list {
		list[i] = member(h, redis.URL(), args...)
	}
	return list
}

// member starts an instance on published rules, and waits until it serves its admin address.
func member(h *rig.Fixture, redis string, args ...string) *e2e.Koalagate {
	h.Helper()
	k := rig.Must(h.Stage.Serve(rig.Binary, rig.RaceSettings, append([]string{"--rules", "redis:", "--redis", redis}, args...)...))(h.T)
	if err := k.Listens(); err != nil {
		h.Fatal(err)
	}
	return k
}

// command runs a command against an instance and returns its output and its exit code.
func command(t *testing.T, admin string, args ...string) (output string, code int) {
	t.Helper()
	c := exec.Command(rig.Binary, append(args, "--admin", admin)...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	_ = c.Run() // ExitCode says it
	return out.String(), c.ProcessState.ExitCode()
}

// published is what an instance states of its rules in /readyz.
type published struct {
	Ready    bool      `json:"ready"`
	LoadedAt time.Time `json:"loaded_at"`
	Version  int       `json:"version"`
}

// inForce returns what instances state once all of them decide by a version.
func inForce(t *testing.T, version int, all ...*e2e.Koalagate) []published {
	t.Helper()
	list := make([]published, len(all))
	for i, k := range all {
		rig.WaitUntil(t, fmt.Sprintf("version %d is in force at instance %d", version, i), func() bool {
			resp, err := http.Get("http://" + k.Admin + "/readyz")
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			return json.NewDecoder(resp.Body).Decode(&list[i]) == nil && list[i].Ready && list[i].Version == version
		})
	}
	return list
}

// mustPublish publishes files at an instance.
func mustPublish(t *testing.T, k *e2e.Koalagate, paths ...string) {
	t.Helper()
	if out, code := command(t, k.Admin, append([]string{"publish", "--deadline", "5m"}, paths...)...); code != 0 {
		t.Fatalf("publish ended with %d: %s", code, out)
	}
}

// Four instances under load switch within a second of each other, and none of them decides
// a request by parts of two versions, or by the former version after the next.
func TestPublishUnderLoad(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	all := fleet(h, 4)
	mustPublish(t, all[0], marked(h, 1))
	inForce(t, 1, all...)
	var stop atomic.Bool
	var callers sync.WaitGroup
	var calls [4]atomic.Int64
	end := func() { stop.Store(true); callers.Wait() }
	defer end()
	for i, k := range all {
		callers.Go(func() {
			last := 0
			for !stop.Load() {
				got, err := rig.TrySend("GET", "http://"+k.HTTP+"/rule/browse?uid=ann")
				if err != nil {
					t.Error(err)
					return
				}
				var answer struct {
					Code   int    `json:"Ret_code"`
					Reason string `json:"Str_reason"`
				}
				if err := json.Unmarshal([]byte(got.Body), &answer); err != nil || answer.Reason != fmt.Sprint("rules ", answer.Code) || answer.Code < last {
					t.Errorf("instance %d after version %d: %v: %s", i, last, err, got.Body)
					return
				}
				last = answer.Code
				calls[i].Add(1)
				<-time.After(time.Millisecond) // others use this machine, too
			}
		})
	}
	for version := 2; version <= 4; version++ {
		mustPublish(t, all[version%4], marked(h, version))
		list := inForce(t, version, all...)
		byTime := func(a, b published) int { return a.LoadedAt.Compare(b.LoadedAt) }
		spread := slices.MaxFunc(list, byTime).LoadedAt.Sub(slices.MinFunc(list, byTime).LoadedAt)
		t.Logf("version %d: %v between the first and the last switch", version, spread)
		for i := range calls {
			before := calls[i].Load()
			rig.WaitUntil(t, "a call after the switch", func() bool { return t.Failed() || calls[i].Load() > before+1 })
		}
	}
	end()
	for i := range calls {
		t.Logf("instance %d: %d calls", i, calls[i].Load())
	}
}

// tripwire is a relay to Redis that kills a process when the nth write about published rules
// since arm passes, before the write reaches Redis.
type tripwire struct {
	address string
	left    atomic.Int64
	kill    func()
	once    sync.Once
	struck  chan struct{}
}

func (w *tripwire) arm(n int) { w.left.Store(int64(n)) }

func newTripwire(h *rig.Fixture, to string) *tripwire {
	h.Helper()
	l := rig.Must(net.Listen("tcp", "127.0.0.1:0"))(h.T)
	w := &tripwire{address: l.Addr().String(), struck: make(chan struct{})}
	var group sync.WaitGroup
	var ends sync.Map
	group.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			onward, err := net.Dial("tcp", to)
			if err != nil {
				_ = from.Close()
				continue
			}
			ends.Store(from, nil)
			ends.Store(onward, nil)
			group.Go(func() { w.pass(onward, from, true) })
			group.Go(func() { w.pass(from, onward, false) })
		}
	})
	h.Cleanup(func() {
		_ = l.Close()
		ends.Range(func(end, _ any) bool {
			_ = end.(net.Conn).Close()
			return true
		})
		group.Wait()
	})
	return w
}

func (w *tripwire) pass(to, from net.Conn, counts bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 512<<10)
	for {
		n, err := from.Read(buffer)
		if counts && bytes.Contains(buffer[:n], []byte("{fleet}")) && w.left.Load() > 0 && w.left.Add(-1) == 0 {
			w.once.Do(func() { w.kill(); close(w.struck) })
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Instances that are killed at each step of a publish leave no half state: the others
// switch, and instances that start again decide by the same version.
func TestInstancesKilledWhilePublishing(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	redis := h.Redis()
	survivors := []*e2e.Koalagate{member(h, redis.URL()), member(h, redis.URL())}
	wires := make([]*tripwire, 6)
	victims := make([]*e2e.Koalagate, len(wires))
	for i := range wires {
		wires[i] = newTripwire(h, redis.Address)
		victims[i] = member(h, "redis://"+wires[i].address)
		wires[i].kill = func() { _ = victims[i].Kill() }
	}
	mustPublish(t, survivors[0], marked(h, 1))
	inForce(t, 1, slices.Concat(victims, survivors)...)
	for i, w := range wires {
		w.arm(1 + i)
	}
	out, code := command(t, survivors[1].Admin, "publish", "--deadline", "5m", marked(h, 2))
	if code != 0 || !strings.Contains(out, "version 2 is in force") {
		t.Fatalf("%d: %s", code, out)
	}
	for _, w := range wires {
		<-w.struck
	}
	inForce(t, 2, survivors...)
	again := []*e2e.Koalagate{member(h, redis.URL()), member(h, redis.URL())}
	inForce(t, 2, slices.Concat(again, survivors)...)
	for _, k := range slices.Concat(again, survivors) {
		if body := rig.Send(t, "GET", "http://"+k.HTTP+"/rule/browse?uid=ann").Body; !strings.Contains(body, "rules 2") {
			t.Errorf("it decides by another version: %s", body)
		}
	}
	// Killed instances are waited for no longer than their heartbeats last.
	mustPublish(t, again[0], marked(h, 3))
	inForce(t, 3, slices.Concat(again, survivors)...)
}
