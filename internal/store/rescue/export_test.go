package rescue

import "time"

// SetStages makes each stage of a return end when the channel that stage returns
// at its beginning delivers. It must be called before the first absence.
func (s *Store) SetStages(stage func() <-chan time.Time) { s.stage = stage }
