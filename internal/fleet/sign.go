package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/signing"
)

// Purpose is what a signature lets instances do with a version. The text that it covers
// begins with it, so that no signature serves another purpose.
type Purpose string

const (
	// ToPublish lets instances load a version and say whether they are ready for it.
	ToPublish Purpose = "publish"
	// InForce lets instances decide by a version. A publisher signs it when the instances
	// are ready: a version that was refused, lapsed or only tried has no such signature.
	InForce Purpose = "in-force"
	// toTry, followed by the options, lets instances try a version.
	toTry = "trial"
)

// ToTry returns the purpose of a trial with its length in ms, what follows and the share
// that aborts it.
func ToTry(o *TrialOptions) Purpose {
	return Purpose(fmt.Sprintf("%s %d %s %s", toTry, o.Length.Milliseconds(), o.Then, shareText(o.AbortAbove)))
}

func shareText(share float64) string { return strconv.FormatFloat(share, 'g', -1, 64) }

// trial returns the options of a trial, nil for another purpose.
func (p Purpose) trial() *TrialOptions {
	word, rest, _ := strings.Cut(string(p), " ")
	parts := strings.Split(rest, " ")
	if word != toTry || len(parts) != 3 {
		return nil
	}
	length, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil || length < 0 || length > maxTrial.Milliseconds() {
		return nil
	}
	share, err := strconv.ParseFloat(parts[2], 64)
	if err != nil {
		return nil
	}
	o := &TrialOptions{Length: time.Duration(length) * time.Millisecond, Then: parts[1], AbortAbove: share}
	if o.check() != nil || ToTry(o) != p {
		return nil
	}
	return o
}

func (p Purpose) isKnown() bool { return p == ToPublish || p == InForce || p.trial() != nil }

// text returns the text that a signature of a manifest covers.
func (p Purpose) text(manifest []byte) []byte {
	return append([]byte("koalagate "+string(p)+"\n"), manifest...)
}

// earlier was the purpose of all signatures of earlier program versions.
const earlier Purpose = "version"

// Sign returns the signature of a manifest's text for a purpose: the purpose, a blank and
// the bytes in base64.
func Sign(key PrivateKey, p Purpose, manifest []byte) string {
	return string(p) + " " + signing.Sign(key, p.text(manifest))
}

// unsigned is the signature of a version without one.
const unsigned = "-"

var (
	errUnsigned  = errors.New("it is not signed, and publish_public_key requires a signature: koalagate publish --sign-key FILE")
	errSignature = errors.New("its signature is not valid for publish_public_key")
	errEarlier   = errors.New("it was signed by an earlier program version, whose signatures do not say what they are for; publish it again: koalagate publish --restore --sign-key FILE")
)

// purposeOf returns the purpose that a signature states, "" for none or an unknown one.
func purposeOf(signature string) Purpose {
	if p := Purpose(signature[:max(0, strings.LastIndexByte(signature, ' '))]); p.isKnown() {
		return p
	}
	return ""
}

// verify checks the signature of a manifest and returns its purpose. Without a key, every
// signature is valid.
func verify(key PublicKey, manifest []byte, signature string) (Purpose, error) {
	p := purposeOf(signature)
	switch {
	case key == nil:
		return p, nil
	case signature == unsigned || signature == "":
		return "", errUnsigned
	case p == "" && signing.IsValid(key, earlier.text(manifest), signature):
		return "", errEarlier
	case p == "" || !signing.IsValid(key, p.text(manifest), signature[len(p)+1:]):
		return "", errSignature
	}
	return p, nil
}

// record returns the value of a version in Redis: the signature and the manifest.
func record(manifest []byte, signature string) []byte {
	if signature == "" {
		signature = unsigned
	}
	return append([]byte(signature+"\n"), manifest...)
}

// cutRecord returns the parts of a record.
func cutRecord(value []byte) (signature string, manifest []byte, err error) {
	if len(value) > maxManifest {
		return "", nil, fmt.Errorf("its manifest is larger than %d bytes", maxManifest)
	}
	line, text, found := bytes.Cut(value, []byte("\n"))
	if !found {
		return "", nil, errors.New("it has no manifest (cut or damaged)")
	}
	return string(line), text, nil
}

// peekNumber returns the number in an unchecked record.
func peekNumber(value []byte) (uint64, error) {
	_, text, _ := bytes.Cut(value, []byte("\n"))
	var m struct {
		Number uint64 `json:"number"`
	}
	err := json.Unmarshal(text, &m)
	return m.Number, err
}

// openRecord checks the value of a version, and returns its manifest and the purpose of its
// signature.
func (r *Records) openRecord(number uint64, value []byte) (*Manifest, Purpose, error) {
	signature, text, err := cutRecord(value)
	if err != nil {
		return nil, "", err
	}
	purpose, err := verify(r.o.PublicKey, text, signature)
	if err != nil {
		return nil, "", err
	}
	m, err := r.openManifest(number, text)
	return m, purpose, err
}

// openSaved checks the value of a version that this instance has saved. Its signature may be
// one of an earlier program version.
func (r *Records) openSaved(value []byte) (*Manifest, Purpose, error) {
	number, _ := peekNumber(value) // openRecord says what is wrong
	m, purpose, err := r.openRecord(number, value)
	switch {
	case errors.Is(err, errEarlier):
		_, text, _ := cutRecord(value)
		m, err = r.openManifest(number, text)
	case err == nil && r.o.PublicKey != nil && purpose != InForce:
		err = errors.New("it was never in force")
	}
	return m, purpose, err
}

// openManifest checks the manifest of a version.
func (r *Records) openManifest(number uint64, text []byte) (*Manifest, error) {
	m, err := ParseManifest(text, r.o.MaxVersionBytes)
	switch {
	case err != nil:
		return nil, err
	case m.Number != number:
		return nil, fmt.Errorf("its manifest belongs to version %d", m.Number)
	case m.Prefix != r.o.Prefix:
		return nil, fmt.Errorf("its manifest is for the redis_prefix %q; want %q", m.Prefix, r.o.Prefix)
	}
	return m, nil
}
