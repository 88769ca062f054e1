package trace

import (
	"io"
	"sync"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

const (
	// maxPending bounds the bytes that wait to be written. A stalled disk costs
	// lines, but no memory and no decision.
	maxPending = 4 << 20
	// flushSize is the number of pending bytes that triggers a write before the
	// timer does, and the size of one write.
	flushSize = 256 << 10
	// maxKept is the size in bytes of the largest buffer that is used again. Calls with
	// many descriptors have longer lines, and are rare.
	maxKept = 16 << 10
	// flushInterval is the longest time that a line waits.
	flushInterval = time.Second
	// closeTimeout is how long Close waits for the disk.
	closeTimeout = 5 * time.Second
)

// LogOptions configures a Log.
type LogOptions struct {
	// Open opens the output, at the start and at every Reopen.
	Open func() (io.WriteCloser, error)
	// Every is the sampling interval: on average, one in Every calls is logged,
	// chosen at random. 0 and 1 log all calls.
	Every int
	// Instance is the name of this instance in every line; "" for none.
	Instance string
	// Mask selects the values that are logged as they are.
	Mask *Mask
	// OnDropped receives the number of lines that were lost, and the error. The
	// error is nil if the buffer was full because the disk is slow or stalled.
	// It is called at most once per second, and never concurrently.
	OnDropped func(lines int64, fault error)
}

// Log writes decisions as a trace. It never delays a decision: lines that cannot
// be written are dropped and counted.
type Log struct {
	options LogOptions
	buffers sync.Pool

	mu      sync.Mutex
	pending []byte
	lines   int64 // in pending
	writing int64 // lines in the current write
	dropped int64 // lines since the last call of OnDropped
	fault   error // the last one since then

	// Fields of the writing goroutine.
	out   io.WriteCloser // nil if opening it failed
	rest  []byte         // the rest of a line that was written partly
	spare []byte

	full     chan struct{} // wakes the writer before its timer
	reopen   chan struct{}
	stop     chan struct{}
	written  chan struct{} // closed when run ends
	reported chan struct{} // closed when report ends
}

// NewLog opens the output and starts a log. The caller must close it. The error
// comes from o.Open.
func NewLog(o LogOptions) (*Log, error) {
	o.Every = max(o.Every, 1)
	out, err := o.Open()
	if err != nil {
		return nil, err
	}
	l := &Log{
		options: o, out: out,
		full: make(chan struct{}, 1), reopen: make(chan struct{}, 1),
		stop: make(chan struct{}), written: make(chan struct{}), reported: make(chan struct{}),
	}
	l.buffers.New = func() any { return new([]byte) }
	go l.run()
	go l.report()
	return l, nil
}

// Observe logs a decision if the call decided or counted something and belongs
// to the sample. It has the signature of engine.Observe.
func (l *Log) Observe(c *engine.Call, d *engine.Decision, err error) {
	if err != nil || !decided(c, d) || !l.isSampled(d) {
		return
	}
	c, d = one(c, d)
	at := d.At
	if at == 0 {
		at = time.Now().UnixMilli() // no store was involved, because nothing was counted
	}
	b := l.buffers.Get().(*[]byte)
	*b = appendLine((*b)[:0], at, c, d, l.options.Mask, l.options.Instance)
	l.add(*b)
	if cap(*b) <= maxKept {
		l.buffers.Put(b)
	}
}

// one returns the part of a call that its line is about. A call may have each request twice,
// for imported limits and for rules: the line is about the rules, unless a limit refused it,
// so that a replay counts each request once.
func one(c *engine.Call, d *engine.Decision) (*engine.Call, *engine.Decision) {
	sourced, refused := 0, false
	for i := range c.Inputs {
		if c.Inputs[i].Sourced && i < len(d.Answers) {
			sourced++
			refused = refused || d.Answers[i].Verdict != rules.Allow || d.Answers[i].Overruled()
		}
	}
	if sourced == 0 || sourced == len(c.Inputs) {
		return c, d
	}
	call, decision := *c, *d
	call.Inputs, decision.Answers = nil, nil
	for i := range d.Answers {
		if c.Inputs[i].Sourced == refused {
			call.Inputs, decision.Answers = append(call.Inputs, c.Inputs[i]), append(decision.Answers, d.Answers[i])
		}
	}
	return &call, &decision
}

// decided reports whether a call decided or counted something. That excludes
// reading a counter, and calls that the mode of the door let through undecided.
func decided(c *engine.Call, d *engine.Decision) bool {
	off := len(d.Answers) > 0 && d.Answers[0].Mode == engine.ModeOff
	return c.Op != engine.Peek && c.Fault == nil && !off
}

// add appends a line to the pending ones.
func (l *Log) add(line []byte) {
	l.mu.Lock()
	fits := len(line) <= MaxLine && len(l.pending)+len(line) <= maxPending
	if fits {
		l.pending = append(l.pending, line...)
		l.lines++
	} else {
		l.dropped++
	}
	full := len(l.pending) >= flushSize
	l.mu.Unlock()
	if full {
		signal(l.full)
	}
}

// signal wakes the goroutine that waits on c, unless a signal is pending.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Reopen makes the log close its output and open it again, for log rotation.
func (l *Log) Reopen() { signal(l.reopen) }

// Close writes the pending lines and ends the log; Observe must not be called
// afterwards. If the disk does not take them within five seconds, the lines are
// lost and Close returns an error.
func (l *Log) Close() error {
	close(l.stop)
	<-l.reported
	defer l.reportDropped()
	select {
	case <-l.written:
	case <-time.After(closeTimeout):
		l.mu.Lock()
		l.dropped += l.lines + l.writing
		l.mu.Unlock()
		return errStalled
	}
	if l.out == nil {
		return nil
	}
	return l.out.Close()
}

// report calls OnDropped every second if necessary. It has a goroutine of its
// own, because the writing one may be stuck in a write.
func (l *Log) report() {
	defer close(l.reported)
	timer := time.NewTicker(flushInterval)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			l.reportDropped()
		case <-l.stop:
			return
		}
	}
}

// reportDropped reports lost lines and errors since its last call.
func (l *Log) reportDropped() {
	l.mu.Lock()
	dropped, fault := l.dropped, l.fault
	l.dropped, l.fault = 0, nil
	l.mu.Unlock()
	if (dropped > 0 || fault != nil) && l.options.OnDropped != nil {
		l.options.OnDropped(dropped, fault)
	}
}
