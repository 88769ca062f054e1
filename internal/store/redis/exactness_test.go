package redis_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// takerJob is the environment variable that makes the test binary run as a taker.
const takerJob = "KOALAGATE_TEST_TAKER"

// job is the work of a taker.
type job struct {
	URL, Prefix string
	Way         int // of storetest.Ways(true)
	Takes       int // of all callers together
	Callers     int
	Seed        uint64
	Noon        int // the zone of the calendar: seconds east of Greenwich
}

func (j *job) zone() *time.Location { return time.FixedZone("noon", j.Noon) }

// contested are the limits that all callers share: short ones, whose windows open
// and close all the time, and long ones, whose counts can be compared at the end.
var contested = []store.Rule{
	{Return: 1, Method: store.Count, Time: 1, Count: 20},
	{Return: 2, Method: store.Base, Time: 1, Count: 10, Base: 300},
	{Return: 3, Method: store.Leak, Time: 1, Count: 15},
	{Return: 4, Method: store.Token, Time: 1, Count: 10, Burst: 20},
	{Return: 5, Method: store.Count, Time: store.Day, Count: 700},
	{Return: 6, Method: store.Leak, Time: 3600, Count: 600},
	{Return: 7, Method: store.Leak, Time: 7200, Count: 100_000_000}, // with a log
}

// forms are further limits of the takers: calendar windows, large numbers, overdrafts,
// bans and waits. A take that waits has its hits from its instant on.
var forms = []store.Rule{
	{Return: 8, Method: store.Count, Unit: store.Epoch, Time: 1, Count: 20},
	{Return: 9, Method: store.Count, Unit: store.Minute, Count: 900},
	{Return: 10, Method: store.Count, Unit: store.Month, Count: 700 * large},
	{Return: 11, Method: store.Count, Time: 1, Count: 15, Ban: 1},
	{Return: 12, Method: store.Leak, Time: 1, Count: 15, Ban: 1},
	{Return: 13, Method: store.Token, Time: 1, Count: 10, Burst: 5, Wait: 700},
	{Return: 14, Method: store.Token, Time: 1, Count: 20, Burst: 20, Overdraft: true},
	{Return: 15, Method: store.Count, Unit: store.Year, Count: 300, Overdraft: true},
	{Return: 16, Method: store.Leak, Time: 7200, Count: 300, Overdraft: true},
}

// large is the number of hits that one hit of the rule of large numbers stands for.
const large = 1_000_000_000_000

// taken are all rules of the takers, by their returns from 1.
var taken = slices.Concat(contested, forms)

// subjects is the number of identities.
const subjects = 40

// runTakes carries out the random takes of a job and writes the admitted ones to
// out, one per line: the instant, then rule, subject and weight of each rule.
func runTakes(text string, out io.Writer) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	o := redis.Options{URL: j.URL, Prefix: j.Prefix, Budget: time.Minute}
	storetest.Ways(true)[j.Way].Set(&o)
	r, err := redis.Open(o)
	if err != nil {
		return err
	}
	defer r.Close()
	w := bufio.NewWriter(out)
	defer w.Flush()
	var lock sync.Mutex
	var callers sync.WaitGroup
	faults := make(chan error, j.Callers)
	for c := range j.Callers {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(j.Seed, uint64(c)))
			var a store.Answers
			for range j.Takes / j.Callers {
				p := &store.Plan{Op: store.Take, Zone: j.zone(), Sets: someSets(random), Patience: 500}
				if err := r.Evaluate(context.Background(), p, &a); err != nil {
					faults <- err
					return
				}
				if line := note(p, &a); line != "" {
					lock.Lock()
					_, _ = w.WriteString(line) // Flush returns the error
					lock.Unlock()
				}
			}
		})
	}
	callers.Wait()
	close(faults)
	if err := <-faults; err != nil {
		return err
	}
	return w.Flush()
}

// someSets returns random rules, mostly in one set.
func someSets(random *rand.Rand) []store.Set {
	sets := make([]store.Set, 1+random.IntN(6)/5)
	for i := range sets {
		sets[i].Allows = true
		for _, at := range random.Perm(len(taken))[:1+random.IntN(3)] {
			rule := taken[at]
			rule.Subject = []byte(strconv.Itoa(min(random.IntN(subjects), random.IntN(subjects)))) // low numbers are more frequent
			rule.Weight = int64(random.IntN(4))
			if rule.Unit == store.Month {
				rule.Weight *= large
			}
			sets[i].Rules = append(sets[i].Rules, rule)
		}
	}
	return sets
}

func admitted(a *store.Answers) bool {
	for i := range a.Sets {
		if a.Sets[i].Decider >= 0 {
			return false
		}
	}
	return true
}

// note formats what a take recorded: on every rule if it was admitted, else on the
// rules with an overdraft that it reached. Then its instant is negative.
func note(p *store.Plan, a *store.Answers) string {
	given, recorded := admitted(a), false
	b := strconv.AppendInt(nil, a.Now, 10)
	if !given {
		b = strconv.AppendInt(nil, -a.Now, 10)
	}
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			r, d := &p.Sets[i].Rules[j], a.Sets[i].Decider
			if given || r.Overdraft && (d < 0 || j <= d) {
				b = fmt.Appendf(b, " %d %s %d", r.Return, r.Subject, r.Weight)
				recorded = true
			}
		}
	}
	if !recorded {
		return ""
	}
	return string(append(b, '\n'))
}

// TestFourProcessesNeverAdmitTooMuch runs with each batching setting, and with
// processes of different settings, as while a change is rolled out over instances.
func TestFourProcessesNeverAdmitTooMuch(t *testing.T) {
	takes := 40_000
	if *long {
		takes = 1_000_000
	}
	for i, way := range storetest.Ways(*long) {
		share := way.Of(takes / 4)
		if i == 0 {
			share = takes // the default
		}
		t.Run(way.Name, func(t *testing.T) { fourProcesses(t, share, i) })
	}
	mixes := [][]int{{0, 1, 2, 4}, {0, 1, 3, 5}} // indices of ways: on and off, each with two others
	if !*long {
		mixes = mixes[:1]
	}
	for _, mix := range mixes {
		t.Run(fmt.Sprint("mixed ", mix), func(t *testing.T) { fourProcesses(t, takes/4, mix...) })
	}
}

// fourProcesses runs four processes that take on the same counters of one Redis, by
// its clock, and checks what they were admitted. The processes use the ways in
// turn.
func fourProcesses(t *testing.T, takes int, ways ...int) {
	const processes, callers, prefix = 4, 16, "exact"
	server := storetest.StartServer(t)
	noon := time.Now().UTC()
	j := job{URL: server.URL(), Prefix: prefix, Takes: takes / processes, Callers: callers, Noon: (12 - noon.Hour()) * 3600}
	begin := time.Now()
	outputs := make([]bytes.Buffer, processes)
	var running sync.WaitGroup
	for i := range processes {
		one := j
		one.Way = ways[i%len(ways)]
		running.Go(func() { runTaker(t, one, uint64(i), &outputs[i]) })
	}
	running.Wait()
	took := time.Since(begin)

	l := make(ledger)
	given := 0
	for i := range outputs {
		given += l.read(t, &outputs[i])
	}
	over := l.over()
	for _, fault := range over {
		t.Error(fault)
	}
	t.Logf("%d takes by %d processes in %v: %d admitted, %d counters, %d over a limit", takes, processes, took.Round(time.Millisecond), given, len(l), len(over))
	// Below 500 takes per second, windows of a second close before many limits are
	// reached.
	slow := took > time.Duration(takes)*2*time.Millisecond
	if given < takes/100 || given > takes*99/100 && !slow {
		t.Errorf("%d of %d takes were admitted: the limits are hardly reached", given, takes)
	}
	l.compareWith(t, server, &j)
	server.CheckExpiries(t, prefix)
}

// runTaker runs one process to its end.
func runTaker(t *testing.T, j job, seed uint64, out io.Writer) {
	j.Seed = seed
	text, err := json.Marshal(j)
	if err != nil {
		t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0])
	c.Env = append(os.Environ(), takerJob+"="+string(text))
	c.Stdout, c.Stderr = out, os.Stderr
	if err := c.Run(); err != nil {
		t.Errorf("taker %d: %v", seed, err)
	}
}
