package tokens

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"

	"github.com/koalagate/koalagate/rules"
)

// Ring opens the verifiers of the rule sets of a process. Lines of [tokens] with the same terms
// and keys share a verifier, so that a reload that leaves them alone forgets no verified token.
// It is safe for concurrent use. The zero value is not usable; NewRing makes one.
type Ring struct {
	options Options

	mu sync.Mutex
	// open are the verifiers that a rule set still has, by what they verify.
	open map[[sha256.Size]byte]weak.Pointer[Verifier]
}

// NewRing returns a ring. Without Options.Turns it verifies on half of the processors at most.
func NewRing(o Options) *Ring {
	if o.Turns == nil {
		o.Turns = make(Turns, max(1, runtime.GOMAXPROCS(0)/2))
	}
	return &Ring{options: o, open: make(map[[sha256.Size]byte]weak.Pointer[Verifier])}
}

// Open is a function for rules.Options.OpenToken.
func (r *Ring) Open(t *rules.JWT, text []byte) (rules.JWTVerifier, []error, error) {
	from, skipped, err := sourceOf(t, text, r.options.Address)
	if err != nil {
		return nil, nil, err
	}
	return r.verifier(t, text, from), skipped, nil
}

// Offline is a function for rules.Options.OpenToken of programs that fetch nothing.
func Offline(t *rules.JWT, text []byte) (rules.JWTVerifier, []error, error) {
	from, skipped, err := sourceOf(t, text, nil)
	if err != nil {
		return nil, nil, err
	}
	return New(t, from, Options{}), skipped, nil
}

// sourceOf returns the source of the keys of a line: of the text of its file, or by address.
func sourceOf(t *rules.JWT, text []byte, address func(*rules.JWT) Source) (from Source, skipped []error, err error) {
	switch {
	case t.From == rules.FromFile:
		keys, err := fileKeys(t, text)
		if err != nil {
			return nil, nil, err
		}
		return keys, keys.Skipped, nil
	case address == nil:
		return (*Keys)(nil), nil, nil
	}
	return address(t), nil, nil
}

// fileKeys returns the keys of a file for the algorithms of a line. Symmetric keys are in use
// only if the line names an algorithm for them.
func fileKeys(t *rules.JWT, text []byte) (*Keys, error) {
	keys, err := ParseKeys(text, slices.ContainsFunc(t.Algorithms, isSymmetric))
	if err != nil {
		return nil, err
	}
	for _, name := range t.Algorithms {
		if isSymmetric(name) && !keys.fits(name) {
			return nil, fmt.Errorf("no symmetric key (oct) for %s", name)
		}
	}
	if !slices.ContainsFunc(t.Algorithms, keys.fits) {
		return nil, errors.New("no key for one of the algorithms")
	}
	return keys, nil
}

// isSymmetric reports whether an algorithm signs with a secret.
func isSymmetric(algorithm string) bool { return strings.HasPrefix(algorithm, "HS") }

// verifier returns the verifier of a line with these keys.
func (r *Ring) verifier(t *rules.JWT, text []byte, from Source) *Verifier {
	id := sha256.Sum256(fmt.Appendf(nil, "%q %s %q\n%s", t.Name, t.Terms(), t.Claims, text))
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.open[id].Value(); v != nil {
		return v
	}
	v := New(t, from, r.options)
	r.open[id] = weak.Make(v)
	runtime.AddCleanup(v, r.forget, id)
	return v
}

// forget removes a verifier that no rule set has any more.
func (r *Ring) forget(id [sha256.Size]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[id].Value() == nil {
		delete(r.open, id)
	}
}

// Remembered returns the number of tokens that all verifiers remember.
func (r *Ring) Remembered() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pointer := range r.open {
		if v := pointer.Value(); v != nil {
			n += v.remembered.len()
		}
	}
	return n
}
