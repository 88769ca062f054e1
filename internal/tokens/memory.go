package tokens

import (
	"crypto/sha256"
	"sync"
)

// maxClaims is the size of the claims of a token that is remembered, in bytes.
const maxClaims = 4 << 10

// memory holds valid tokens by their SHA-256. Once half of most tokens are new, it forgets
// those that were not asked for since the last time. Its zero value remembers none.
type memory struct {
	most int

	mu         sync.RWMutex
	young, old map[[sha256.Size]byte]*verified
}

// find returns a token that was verified with these keys; nil if there is none. Keys that have
// changed end what was verified with those before.
func (m *memory) find(sum [sha256.Size]byte, keys *Keys) *verified {
	m.mu.RLock()
	known, isYoung := m.young[sum]
	if !isYoung {
		known = m.old[sum]
	}
	m.mu.RUnlock()
	if known == nil || known.by != keys {
		return nil
	}
	if !isYoung {
		m.keep(sum, known)
	}
	return known
}

func (m *memory) keep(sum [sha256.Size]byte, known *verified) {
	size := 0
	for _, claim := range known.claims {
		size += len(claim)
	}
	if m.most == 0 || size > maxClaims {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.young == nil {
		m.young = make(map[[sha256.Size]byte]*verified)
	}
	if _, known := m.young[sum]; !known && len(m.young) >= max(m.most/2, 1) {
		m.young, m.old = make(map[[sha256.Size]byte]*verified), m.young
	}
	m.young[sum] = known
	delete(m.old, sum)
}

// len returns the number of remembered tokens.
func (m *memory) len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.young) + len(m.old)
}
