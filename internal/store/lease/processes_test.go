package lease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// instanceURL is the environment variable that makes a process an instance on this Redis.
const instanceURL = "KOALAGATE_TEST_LEASE_INSTANCE"

// callers is the number of callers of an instance.
const callers = 4

// hot is the rule of the busy counter.
func hot(count, share int64) store.Rule {
	return store.Rule{Subject: []byte("hot"), Return: 1, Method: store.Count, Time: 3600, Count: count, Lease: share, Weight: 1}
}

// runInstance makes takes until the input ends, half of them after a reload that changes
// the share, and drains then. It writes a byte for each admitted take, before the caller's
// next one.
func runInstance(url string, in io.Reader, out io.Writer) error {
	var limit, takes int64
	if _, err := fmt.Fscanf(in, "%d %d\n", &limit, &takes); err != nil {
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
	for range callers {
		running.Go(func() {
			var a store.Answers
			for n := int64(0); n < takes/callers && ctx.Err() == nil; n++ {
				rule := hot(limit, 50)
				if n > takes/callers/2 {
					rule.Lease = 100
				}
				p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{rule}}}}
				if err := s.Evaluate(context.WithoutCancel(ctx), p, &a); err != nil {
					faults <- err
					return
				}
				if a.Sets[0].Decider >= 0 {
					continue
				}
				if _, err := out.Write([]byte{1}); err != nil {
					faults <- err
					return
				}
			}
		})
	}
	running.Wait()
	s.Close()
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
	output  io.Reader
}

func startInstance(t *testing.T, url string, limit, takes int64) *instance {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), instanceURL+"="+url), os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	if _, err := fmt.Fprintf(in, "%d %d\n", limit, takes); err != nil {
		t.Fatal(err)
	}
	return &instance{c, in, out}
}

// read counts the admitted takes, at most n of them.
func (i *instance) read(n int64) int64 {
	got, _ := io.CopyN(io.Discard, i.output, n) // it ends with the process
	return got
}

// TestFourProcessesOnOneCounter has four processes, of which one is killed and one drained
// while they use parts, take more than a limit. Not one hit too many is admitted. What
// then can be taken without parts is missing only by what the killed process held, and by
// the answers that died with it.
func TestFourProcessesOnOneCounter(t *testing.T) {
	server := storetest.StartServer(t)
	takes, limit := int64(100_000), int64(60_000)
	if *long {
		takes, limit = 1_000_000, 600_000
	}
	end := func(i *instance, counted int64) int64 {
		counted += i.read(takes)
		if err := i.command.Wait(); err != nil {
			t.Errorf("an instance failed: %v", err)
		}
		return counted
	}
	counts := make([]int64, 4)
	var running sync.WaitGroup
	for n := range counts {
		i := startInstance(t, server.URL(), limit, takes/4)
		running.Go(func() {
			if n > 1 {
				counts[n] = end(i, 0)
				return
			}
			counts[n] = i.read(takes / 20)
			if n == 0 {
				_ = i.command.Process.Kill()
				counts[n] += i.read(takes)
				_ = i.command.Wait()
			} else {
				_ = i.input.Close()
				counts[n] = end(i, counts[n])
			}
			next := startInstance(t, server.URL(), limit, takes/4)
			counts[n] = end(next, counts[n])
		})
	}
	running.Wait()
	admitted := counts[0] + counts[1] + counts[2] + counts[3]
	r, err := redis.Open(redis.Options{URL: server.URL(), Refusals: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{hot(limit, 50)}}}}
	late := int64(0)
	for a := (store.Answers{}); ; late++ {
		if err := r.Evaluate(context.Background(), p, &a); err != nil {
			t.Fatal(err)
		}
		if a.Sets[0].Decider >= 0 {
			break
		}
	}
	t.Logf("%d of %d hits admitted by the processes, %d given back and taken then", admitted, limit, late)
	if admitted+late > limit {
		t.Errorf("%d hits admitted, more than %d", admitted+late, limit)
	}
	if missing, held := limit-admitted-late, limit/10; missing > held+callers {
		t.Errorf("%d hits are missing, more than the %d that a killed process may have held", missing, held)
	}
}
