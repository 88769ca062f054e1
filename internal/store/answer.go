package store

// reset makes a ready for n sets and keeps its memory.
func (a *Answers) reset(n int) {
	if cap(a.Sets) < n {
		a.Sets = append(a.Sets[:cap(a.Sets)], make([]Answer, n-cap(a.Sets))...)
	}
	a.Sets = a.Sets[:n]
	for i := range a.Sets {
		a.Sets[i].reset()
	}
	a.Degraded, a.Now = false, 0
}

// reset makes a say nothing and keeps its memory.
func (a *Answer) reset() {
	*a = Answer{Decider: -1, Reporter: -1, Retry: never, Refusals: a.Refusals[:0]}
}

// decided notes that rule j decided.
func (a *Answer) decided(j int, got reading) {
	a.Decider = j
	a.tell(j, got)
	a.Retry = got.retry
}

// tell notes that the numbers are those of rule j.
func (a *Answer) tell(j int, got reading) {
	a.Reporter = j
	a.Limit, a.Remaining, a.Reset = got.limit, got.remaining, got.reset
	a.Daily = got.daily
}
