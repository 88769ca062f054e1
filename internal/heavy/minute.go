package heavy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/fleet/minutes"
	"github.com/koalagate/koalagate/rules"
)

const (
	// heaviest is the number of identities that a minute keeps of each kind, whatever their
	// rules: all others have fewer than the calls of the kind divided by it.
	heaviest = 128
	// further is the number of identities that it keeps in addition, in turn of each rule,
	// so that rules with few calls have their heaviest, too.
	further = 128
	// maxValue is the length from which a value is shortened, in bytes.
	maxValue   = 100
	shownValue = 80
	cut        = "…"
	hashBytes  = 8
	// maxWhole bounds the identities of a minute that are kept whole because a value was
	// shortened, in bytes.
	maxWhole = 64 << 10
)

// minute are the heaviest identities of a minute. It does not change.
type minute struct {
	number int64
	// Most are the most calls by kind that an identity may have which is not in the list,
	// and Calls are all calls.
	Most  [kinds]int64 `json:"m"`
	Calls [kinds]int64 `json:"n"`
	List  []identity   `json:"l"`
}

// identity are the calls of an identity of a rule.
type identity struct {
	Rule   int64        `json:"r"`
	Limit  string       `json:"a,omitempty"` // the name of a rule without a number
	Door   string       `json:"d,omitempty"`
	Values [][]byte     `json:"v"` // names and values in turn; not all values are UTF-8
	Least  [kinds]int64 `json:"c"` // calls at least
	Excess [kinds]int64 `json:"e"` // and at most so many more

	// whole are the values by name if any is shortened; nil if they are unknown, as other
	// instances know them.
	whole map[string]string
}

// key identifies the rule and the identity.
func (i *identity) key() string {
	var b strings.Builder
	b.WriteString(itoa(i.Rule) + i.Limit)
	for _, v := range i.Values {
		b.WriteByte(' ')
		b.WriteString(itoa(int64(len(v))))
		b.WriteByte(':')
		b.Write(v)
	}
	return b.String()
}

// freeze returns the heaviest identities of the sketches. r.mu is held.
func (r *Recorder) freeze() *minute {
	m := &minute{number: r.minute}
	room := maxWhole
	places := make(map[uint64]int)
	for k, s := range r.sketches {
		chosen, left := choose(s.top.Sorted())
		m.Most[k] = max(s.most(), left) + r.dropped
		m.Calls[k] = s.calls + r.dropped
		for _, one := range chosen {
			if _, known := places[one.Key]; !known {
				places[one.Key] = len(m.List)
				m.List = append(m.List, r.identityOf(one, &room))
			}
		}
	}
	for key, i := range places {
		for k, s := range r.sketches {
			if one := s.top.Get(key); one != nil {
				m.List[i].Least[k], m.List[i].Excess[k] = least(one), most(one)-least(one)+r.dropped
			} else {
				m.List[i].Excess[k] = s.most() + r.dropped
			}
		}
	}
	return m
}

// choose returns the counters that a minute keeps of those in order, and the most calls that
// one of the others may have. It changes the order.
func choose(order []*slot) (chosen []*slot, left int64) {
	n := min(heaviest, len(order))
	chosen, order = order[:n:n], order[n:]
	type ruleKey struct {
		number int64
		limit  string // of a rule without a number
	}
	keyOf := func(r *rules.Rule) ruleKey {
		if r.Return != 0 {
			return ruleKey{number: r.Return}
		}
		return ruleKey{limit: r.Name}
	}
	taken := make(map[ruleKey]int) // by rule, in addition
	for share := 1; len(chosen) < heaviest+further && len(order) > 0; share++ {
		rest := order[:0]
		for _, one := range order {
			if len(chosen) < heaviest+further && taken[keyOf(one.Value.rule)] < share {
				taken[keyOf(one.Value.rule)]++
				chosen = append(chosen, one)
			} else {
				rest = append(rest, one)
			}
		}
		order = rest
	}
	for _, one := range order {
		left = max(left, most(one))
	}
	return chosen, left
}

// identityOf returns the identity of a counter. One with shortened values is kept whole, too, while
// there is room, which it takes.
func (r *Recorder) identityOf(one *slot, room *int) identity {
	m := rules.Match{Rule: one.Value.rule, Identity: one.Value.identity}
	i := identity{Rule: one.Value.rule.Return, Door: one.Value.door}
	if i.Rule == 0 {
		i.Limit = one.Value.rule.Name
	}
	values, isShort := r.o.Values(&m), false
	for _, p := range values {
		i.Values = append(i.Values, []byte(p.Name), shorten(p.Value))
		isShort = isShort || len(p.Value) > maxValue
	}
	if length := len(one.Value.identity); isShort && length <= *room {
		*room -= length
		i.whole = make(map[string]string, len(values))
		for _, p := range values {
			i.whole[p.Name] = p.Value
		}
	}
	return i
}

// shorten returns a value, of a long one the beginning and a hash.
func shorten(value string) []byte {
	if len(value) <= maxValue {
		return []byte(value)
	}
	sum := sha256.Sum256([]byte(value))
	return []byte(strings.ToValidUTF8(value[:shownValue], "") + cut + hex.EncodeToString(sum[:hashBytes]))
}

// isShortened reports whether a value has the form of one that was shortened.
func isShortened(value string) bool {
	at := len(value) - 2*hashBytes
	return at > 0 && at <= shownValue+len(cut) && strings.HasSuffix(value[:at], cut)
}

// encode returns the document of a minute. Identities for which it has no room are left
// out, the lightest first.
func (m *minute) encode() []byte {
	short := *m
	short.List = slices.Clone(m.List)
	slices.SortStableFunc(short.List, func(a, b identity) int { return cmp.Compare(b.weight(), a.weight()) })
	for {
		text, _ := json.Marshal(&short) // numbers and bytes can always be encoded
		if len(text) <= minutes.MaxDocument {
			return text
		}
		n := len(short.List) * 3 / 4
		for i := range short.List[n:] {
			short.omit(&short.List[n+i])
		}
		short.List = short.List[:n]
	}
}

// weight returns the calls of the kind with the most.
func (i *identity) weight() int64 { return slices.Max(i.Least[:]) }

// omit notes that an identity is not in the list.
func (m *minute) omit(i *identity) {
	for k := range m.Most {
		m.Most[k] = max(m.Most[k], i.Least[k]+i.Excess[k])
	}
}

// decode reads a document, which may hold anything.
func decode(number int64, text string) (*minute, error) {
	m := &minute{number: number}
	if err := json.Unmarshal([]byte(text), m); err != nil {
		return nil, err
	}
	faulty := errors.New("the document has an unknown form")
	for k := range m.Most {
		if !isCount(m.Most[k]) || !isCount(m.Calls[k]) {
			return nil, faulty
		}
	}
	if len(m.List) > int(kinds)*(heaviest+further) {
		return nil, faulty
	}
	for i := range m.List {
		one := &m.List[i]
		if len(one.Values)%2 != 0 || len(one.Door) > maxValue {
			return nil, faulty
		}
		for k := range m.Most {
			if !isCount(one.Least[k]) || !isCount(one.Excess[k]) {
				return nil, faulty
			}
		}
	}
	return m, nil
}

// isCount reports whether a number can be one of calls in a minute: sums of them do not
// overflow.
func isCount(n int64) bool { return n >= 0 && n < 1<<40 }
