package trace

import (
	"errors"
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
)

// LogOptions are what a Log needs.
type LogOptions struct {
	// Open opens what is written to: at the start, and at every Reopen.
	Open func() (io.WriteCloser, error)
	// Every has one in so many calls written down, taken at random; 1 for all.
	Every int
	// Mask says which values are written as they are.
	Mask *Mask
	// OnDropped is told of lines that were not written, and of the fault: nil
	// where there was no room. It is called from one goroutine, at most once a
	// second.
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
	dropped int64 // since OnDropped was called

	// What the writing goroutine has for itself.
	out   io.WriteCloser // nil if it could not be opened
	fault error          // since OnDropped was called
	spare []byte

	full   chan struct{} // there is much to write
	reopen chan struct{}
	stop   chan struct{}
	ended  chan struct{}
}

// NewLog opens a log. The caller closes it.
func NewLog(o LogOptions) (*Log, error) {
	out, err := o.Open()
	if err != nil {
		return nil, err
	}
	l := &Log{
		options: o, out: out,
		full: make(chan struct{}, 1), reopen: make(chan struct{}, 1),
		stop: make(chan struct{}), ended: make(chan struct{}),
	}
	l.buffers.New = func() any { return new([]byte) }
	go l.run()
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
	*b = appendLine((*b)[:0], at, c, d, l.options.Mask.show)
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

// Close writes what waits and ends the log. Nothing may be observed after.
func (l *Log) Close() error {
	close(l.stop)
	<-l.ended
	if l.out == nil {
		return nil
	}
	return l.out.Close()
}

// run writes until the log is closed.
func (l *Log) run() {
	defer close(l.ended)
	timer := time.NewTicker(flushInterval)
	defer timer.Stop()
	for {
		select {
		case <-l.full:
			l.write()
		case <-timer.C:
			l.write()
			l.tell()
		case <-l.reopen:
			l.write()
			l.openAgain()
		case <-l.stop:
			l.write()
			l.tell()
			return
		}
	}
}

// write writes what waits, whole lines in one piece.
func (l *Log) write() {
	l.mu.Lock()
	text, lines := l.pending, l.lines
	l.pending, l.lines, l.spare = l.spare[:0], 0, text
	l.mu.Unlock()
	if lines == 0 {
		return
	}
	err := errNotOpen
	if l.out != nil {
		_, err = l.out.Write(text)
	}
	if err != nil {
		l.fault = err
		l.mu.Lock()
		l.dropped += lines
		l.mu.Unlock()
	}
}

var errNotOpen = errors.New("the file could not be opened")

// openAgain opens the file anew. Without it lines are dropped until the next
// Reopen.
func (l *Log) openAgain() {
	if l.out != nil {
		l.out.Close()
	}
	l.out, l.fault = l.options.Open()
}

// tell reports what went wrong since it last did.
func (l *Log) tell() {
	l.mu.Lock()
	dropped := l.dropped
	l.dropped = 0
	l.mu.Unlock()
	if (dropped > 0 || l.fault != nil) && l.options.OnDropped != nil {
		l.options.OnDropped(dropped, l.fault)
	}
	l.fault = nil
}
