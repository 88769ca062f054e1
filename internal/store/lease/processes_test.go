//go:build unix

package lease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// instanceURL is the environment variable that makes a process an instance on this Redis.
const instanceURL = "KOALAGATE_TEST_LEASE_INSTANCE"

// callers is the number of callers of an instance.
const callers = 4

// scoreboard is memory that the instances and the test share, so that it outlives
// instances that are killed.
type scoreboard struct {
	admitted atomic.Int64
	early    atomic.Int64 // refusals because of parts
	// first is the smallest number of admitted takes before a refusal, plus 1; 0 without
	// refusals.
	first    atomic.Int64
	spenders atomic.Int64 // instances that have spent hits from parts and are not killed
	spent    atomic.Int64 // hits from parts, by instances that were not killed
}

// openScoreboard maps a file.
func openScoreboard(path string) (*scoreboard, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int64(unsafe.Sizeof(scoreboard{}))
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	memory, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*scoreboard)(unsafe.Pointer(&memory[0])), nil // the memory is mapped until the process ends
}

// refused takes note of a refusal.
func (s *scoreboard) refused(a *store.Answer) {
	if a.Early {
		s.early.Add(1)
	}
	for now := s.admitted.Load() + 1; ; {
		first := s.first.Load()
		if first > 0 && first <= now || s.first.CompareAndSwap(first, now) {
			return
		}
	}
}

// reaches waits until so many takes are admitted and an instance that is not killed has spent
// hits of a part, and reports whether that happens within a long time. If one were killed
// before, it might have held the whole share, and the others would use up the limit without
// parts before that ends.
func (s *scoreboard) reaches(admitted int64) bool {
	for begin := time.Now(); s.admitted.Load() < admitted || s.spenders.Load() == 0; time.Sleep(time.Millisecond) { // other processes write the memory
		if time.Since(begin) > 5*time.Minute {
			return false
		}
	}
	return true
}

// hot is the rule of the busy counter.
func hot(count, share int64) store.Rule {
	return store.Rule{Subject: []byte("hot"), Return: 1, Method: store.Count, Time: 3600, Count: count, Lease: share, Weight: 1}
}

// shares are the leases of the rule, one for each generation of rules.
var shares = [...]int64{50, 100, 0, 20}

// maxShare is the largest of them.
const maxShare = 100

// runInstance makes takes until the input ends, with a reload after each quarter, and
// drains then. It counts each admitted take before the caller's next one.
func runInstance(url string, in io.Reader) error {
	var limit, takes int64
	var killed bool
	var path string
	if _, err := fmt.Fscanf(in, "%d %d %t %s\n", &limit, &takes, &killed, &path); err != nil {
		return err
	}
	board, err := openScoreboard(path)
	if err != nil {
		return err
	}
	r, err := redis.Open(redis.Options{URL: url, Budget: time.Minute})
	if err != nil {
		return err
	}
	s := New(r, r, Options{})
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in) // ends when the test closes it
		stop()
	}()
	faults := make(chan error, callers)
	var running sync.WaitGroup
	var reported atomic.Bool // as one of the spenders, unless it is killed
	reported.Store(killed)
	for range callers {
		running.Go(func() {
			var a store.Answers
			own := takes / callers
			for n := int64(0); n < own && ctx.Err() == nil; n++ {
				rule := hot(limit, shares[n*int64(len(shares))/own])
				p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{rule}}}}
				if err := s.Evaluate(context.WithoutCancel(ctx), p, &a); err != nil {
					faults <- err
					return
				}
				if a.Sets[0].Decider < 0 {
					board.admitted.Add(1)
				} else {
					board.refused(&a.Sets[0])
				}
				if !reported.Load() && s.Stats().Spent > 0 && reported.CompareAndSwap(false, true) {
					board.spenders.Add(1)
				}
			}
		})
	}
	running.Wait()
	s.Close()
	board.spent.Add(s.Stats().Spent)
	close(faults)
	err = r.Close()
	for fault := range faults {
		err = errors.Join(err, fault)
	}
	return err
}

// instance is an instance in a process of its own.
type instance struct {
	command *exec.Cmd
	input   io.Closer
}

func startInstance(t *testing.T, url, board string, limit, takes int64, killed bool) *instance {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), instanceURL+"="+url), os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	if _, err := fmt.Fprintf(in, "%d %d %t %s\n", limit, takes, killed, board); err != nil {
		t.Fatal(err)
	}
	return &instance{c, in}
}

// TestFourProcessesOnOneCounter has four processes take more than a limit. Two are
// replaced again and again while they use parts, one after a kill, the other after a
// drain; each reloads its rules, also to rules without leases. Not one hit too many is
// admitted. No take is refused while more is left than the share of the limit and what
// killed processes held.
func TestFourProcessesOnOneCounter(t *testing.T) {
	server := storetest.StartServer(t)
	takes, limit, rounds := int64(100_000), int64(60_000), 2
	if *long {
		takes, limit, rounds = 1_000_000, 600_000, 8
	}
	path := filepath.Join(t.TempDir(), "scoreboard")
	board, err := openScoreboard(path)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for n := range 4 {
		running.Go(func() {
			for round := range rounds {
				if n > 1 {
					break
				}
				i := startInstance(t, server.URL(), path, limit, takes/4, n == 0)
				if !board.reaches(limit / 2 * int64(round+1) / int64(rounds)) {
					t.Error("the instances do not use up half of the limit, or no parts")
				}
				if n == 0 {
					_ = i.command.Process.Kill()
					_ = i.command.Wait()
				} else if _ = i.input.Close(); i.command.Wait() != nil {
					t.Error("a drained instance failed")
				}
			}
			i := startInstance(t, server.URL(), path, limit, takes/4, false)
			if err := i.command.Wait(); err != nil {
				t.Errorf("an instance failed: %v", err)
			}
		})
	}
	running.Wait()
	admitted := board.admitted.Load()
	late := takeRest(t, server.URL(), limit)
	missing := limit - admitted - late
	t.Logf("%d of %d hits admitted by the processes (%d of them from parts that were not killed), %d given back and taken then; %d early refusals, the first refusal after %d hits",
		admitted, limit, board.spent.Load(), late, board.early.Load(), board.first.Load()-1)
	if missing < 0 {
		t.Errorf("%d hits admitted, more than %d", admitted+late, limit)
	}
	// An answer may die with its process, and each caller may not have counted one yet.
	lost := int64(rounds * callers)
	if most := int64(rounds)*limit*maxShare/1000 + lost; missing > most {
		t.Errorf("%d hits are missing, more than the %d that killed processes may have held", missing, most)
	}
	if first, least := board.first.Load()-1, limit-limit*maxShare/1000-missing-4*callers; first < least {
		t.Errorf("a take was refused after %d hits, earlier than after %d", first, least)
	}
	if board.spent.Load() == 0 {
		t.Error("no hit was spent from a part")
	}
}

// takeRest takes what is left of the busy counter, without parts.
func takeRest(t *testing.T, url string, limit int64) (n int64) {
	t.Helper()
	r, err := redis.Open(redis.Options{URL: url, Refusals: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{hot(limit, 50)}}}}
	for a := (store.Answers{}); ; n++ {
		if err := r.Evaluate(context.Background(), p, &a); err != nil {
			t.Fatal(err)
		}
		if a.Sets[0].Decider >= 0 {
			return n
		}
	}
}
