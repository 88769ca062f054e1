package trace

import (
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/koalagate/koalagate/engine"
)

const (
	// maxPending bounds what waits to be written, in bytes: a disk that
	// stands still costs lines, never memory and never a decision.
	maxPending = 4 << 20
	// writeFrom is how much is written without waiting for the timer.
	writeFrom = 256 << 10
	// flushInterval is how long a line waits at most.
	flushInterval = time.Second
	// closeTime is how long the end of the log waits for its disk.
	closeTime = 5 * time.Second
)

// LogOptions are what a Log needs.
type LogOptions struct {
	// Open opens what is written to: at the start, and at every Reopen.
	Open func() (io.WriteCloser, error)
	// Every has one in so many calls written down, taken at random; 0 and 1 for
	// all.
	Every int
	// Mask says which values are written as they are.
	Mask *Mask
	// OnDropped is told of lines that were not written, and of the fault: nil
	// where there was no room, since the disk is slow or stands still. It is
	// called once a second at most, never by two goroutines at a time.
	OnDropped func(lines int64, fault error)
}

// Log writes decisions down as a trace. It never keeps a decision waiting:
// what cannot be written is dropped and counted.
type Log struct {
	options LogOptions
	buffers sync.Pool

	mu      sync.Mutex
	pending []byte
	lines   int64 // in pending
	writing int64 // lines that are on their way to the disk
	dropped int64 // since OnDropped was called
	fault   error // since OnDropped was called

	// What the writing goroutine has for itself.
	out   io.WriteCloser // nil if it could not be opened
	rest  []byte         // of a line that was written in part
	spare []byte

	full    chan struct{} // there is much to write
	reopen  chan struct{}
	stop    chan struct{}
	written chan struct{} // the writing goroutine has ended
	told    chan struct{} // the telling one has
}

// NewLog opens a log. The caller closes it.
func NewLog(o LogOptions) (*Log, error) {
	o.Every = max(o.Every, 1)
	out, err := o.Open()
	if err != nil {
		return nil, err
	}
	l := &Log{
		options: o, out: out,
		full: make(chan struct{}, 1), reopen: make(chan struct{}, 1),
		stop: make(chan struct{}), written: make(chan struct{}), told: make(chan struct{}),
	}
	l.buffers.New = func() any { return new([]byte) }
	go l.run()
	go l.report()
	return l, nil
}

// Observe writes a decision down, if it is one and among the sample. It is
// made for engine.Observe.
func (l *Log) Observe(c *engine.Call, d *engine.Decision, err error) {
	if err != nil || !decided(c, d) || rand.IntN(l.options.Every) > 0 { //nolint:gosec // a sample is no secret
		return
	}
	at := d.At
	if at == 0 {
		at = time.Now().UnixMilli() // nothing was counted, so no store was asked
	}
	b := l.buffers.Get().(*[]byte)
	*b = appendLine((*b)[:0], at, c, d, l.options.Mask)
	l.add(*b)
	l.buffers.Put(b)
}

// decided tells whether something was decided or counted: not for a look at a
// counter, nor where the door's mode let a call through without asking.
func decided(c *engine.Call, d *engine.Decision) bool {
	off := len(d.Sets) > 0 && d.Sets[0].Mode == engine.ModeOff
	return c.Op != engine.Peek && c.Fault == nil && !off
}

// add puts a line behind those that wait.
func (l *Log) add(line []byte) {
	l.mu.Lock()
	fits := len(line) <= MaxLine && len(l.pending)+len(line) <= maxPending
	if fits {
		l.pending = append(l.pending, line...)
		l.lines++
	} else {
		l.dropped++
	}
	much := len(l.pending) >= writeFrom
	l.mu.Unlock()
	if much {
		signal(l.full)
	}
}

// signal wakes whoever waits on c, who may be awake already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Reopen makes the log close its file and open it anew, after somebody moved it
// away.
func (l *Log) Reopen() { signal(l.reopen) }

// Close writes what waits and ends the log. Nothing may be observed after. A
// disk that stands still is given five seconds: then what waits is lost, and
// the error says so.
func (l *Log) Close() error {
	close(l.stop)
	<-l.told
	defer l.tell()
	select {
	case <-l.written:
	case <-time.After(closeTime):
		l.mu.Lock()
		l.dropped += l.lines + l.writing
		l.mu.Unlock()
		return errStandsStill
	}
	if l.out == nil {
		return nil
	}
	return l.out.Close()
}

// report tells of what was dropped, once a second: by itself, since the writing
// goroutine may hang with its disk.
func (l *Log) report() {
	defer close(l.told)
	timer := time.NewTicker(flushInterval)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			l.tell()
		case <-l.stop:
			return
		}
	}
}

// tell reports what went wrong since it last did.
func (l *Log) tell() {
	l.mu.Lock()
	dropped, fault := l.dropped, l.fault
	l.dropped, l.fault = 0, nil
	l.mu.Unlock()
	if (dropped > 0 || fault != nil) && l.options.OnDropped != nil {
		l.options.OnDropped(dropped, fault)
	}
}
