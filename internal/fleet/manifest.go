package fleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/koalagate/koalagate/internal/pace"
)

const (
	// format is the format of manifests that this program writes and reads.
	format = 1
	// maxManifest is the maximum size of a manifest with its signature, in bytes.
	maxManifest = 1 << 20
	// maxFiles is the maximum number of files of a version.
	maxFiles = 10_000
	// maxName, maxAuthor and maxNote are maximum lengths in bytes.
	maxName, maxAuthor, maxNote = 4096, 256, 1024
)

// Manifest describes a version. Files are found by the hashes of their contents;
// findings mention their names, which are never paths of a host.
type Manifest struct {
	Format int `json:"format"`
	// Prefix is the prefix of the keys in Redis, so that a signed version is valid for
	// one fleet only.
	Prefix string `json:"prefix"`
	// Number is the version's number, and Before its predecessor's, 0 without one.
	Number uint64 `json:"number"`
	Before uint64 `json:"before"`
	// Hash is the hash of the rule set, as in /readyz.
	Hash   string    `json:"hash"`
	Author string    `json:"author"`
	Note   string    `json:"note,omitempty"`
	At     time.Time `json:"at"` // by the clock of Redis
	// Program is the version of the program that published it.
	Program string `json:"program"`
	Rules   int    `json:"rules"` // the number of rules
	// Files are the rule files in order, Lists the word lists, tables and files of keys.
	Files []File     `json:"files"`
	Lists []ListFile `json:"lists,omitempty"`
}

// File is the content of a rule file.
type File struct {
	Name string `json:"name"`
	Blob
}

// ListFile is a word list, a table or a file of keys: Source is the name of the rule file that
// declares it, and Path the path in the declaration.
type ListFile struct {
	Source string `json:"source"`
	Path   string `json:"path"`
	Blob
}

// Blob is a content by its hash.
type Blob struct {
	Sum  string `json:"sha256"` // hex
	Size int64  `json:"size"`   // bytes
}

// BlobOf returns the blob of a content.
func BlobOf(content []byte) Blob {
	return hashed(content, func() bool { return true })
}

// blobOf is BlobOf with the pauses of ctx. It returns the blob of no content if ctx has ended.
func blobOf(ctx context.Context, content []byte) Blob {
	return hashed(content, func() bool { return pace.Step(ctx) == nil })
}

// hashed returns the blob of a content, or of none if goOn returns false. It hashes in pieces,
// between which decisions run: a single call for 50 MB cannot be preempted.
func hashed(content []byte, goOn func() bool) Blob {
	sum := sha256.New()
	for piece := range slices.Chunk(content, 64<<10) {
		if sum.Write(piece); !goOn() {
			return Blob{}
		}
		runtime.Gosched()
	}
	return Blob{Sum: hex.EncodeToString(sum.Sum(nil)), Size: int64(len(content))}
}

// Blobs returns the blobs of the version, each once.
func (m *Manifest) Blobs() []Blob {
	seen := make(map[string]bool)
	var list []Blob
	add := func(b Blob) {
		if !seen[b.Sum] {
			seen[b.Sum] = true
			list = append(list, b)
		}
	}
	for i := range m.Files {
		add(m.Files[i].Blob)
	}
	for i := range m.Lists {
		add(m.Lists[i].Blob)
	}
	return list
}

// Encode returns the text of the manifest, which a signature covers.
func (m *Manifest) Encode() ([]byte, error) {
	m.Format = format
	return json.Marshal(m)
}

// ParseManifest reads a manifest and checks everything but its signature. total is the
// maximum size of the version in bytes.
func ParseManifest(text []byte, total int64) (*Manifest, error) {
	var newer struct {
		Format  int    `json:"format"`
		Program string `json:"program"`
	}
	if err := json.Unmarshal(text, &newer); err != nil {
		return nil, fmt.Errorf("its manifest is no JSON (cut or damaged): %w", err)
	}
	if newer.Format != format {
		return nil, fmt.Errorf("its manifest has the format %d and this program reads %d; it was published by the program version %.40q: use that version here", newer.Format, format, newer.Program)
	}
	m := new(Manifest)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("its manifest: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("its manifest is followed by other data")
	}
	return m, m.check(total)
}

// check returns an error if the manifest is invalid.
func (m *Manifest) check(total int64) error {
	switch {
	case m.Number == 0 || m.Number > maxNumber || m.Before >= m.Number:
		return fmt.Errorf("its manifest has the number %d after %d; want 1 … %d, above the version before it", m.Number, m.Before, int64(maxNumber))
	case len(m.Files) == 0:
		return errors.New("its manifest names no rule file")
	case len(m.Files)+len(m.Lists) > maxFiles:
		return fmt.Errorf("its manifest names %d files; want at most %d", len(m.Files)+len(m.Lists), maxFiles)
	case !isText(m.Author, maxAuthor) || m.Author == "":
		return fmt.Errorf("its author is invalid; want 1 to %d bytes without control characters", maxAuthor)
	case !isText(m.Note, maxNote):
		return fmt.Errorf("its note is invalid; want at most %d bytes without control characters", maxNote)
	case !isText(m.Program, maxAuthor) || !isText(m.Hash, maxAuthor) || !isText(m.Prefix, maxAuthor):
		return errors.New("its manifest has an invalid program, hash or prefix")
	}
	for i := range m.Files {
		if !isText(m.Files[i].Name, maxName) {
			return errors.New("its manifest has an invalid file name")
		}
	}
	for i := range m.Lists {
		if !isText(m.Lists[i].Source, maxName) || !isText(m.Lists[i].Path, maxName) {
			return errors.New("its manifest has an invalid path of a word list or table")
		}
	}
	return m.checkSizes(total)
}

func (m *Manifest) checkSizes(total int64) error {
	blobs := make([]Blob, 0, len(m.Files)+len(m.Lists))
	for i := range m.Files {
		blobs = append(blobs, m.Files[i].Blob)
	}
	for i := range m.Lists {
		blobs = append(blobs, m.Lists[i].Blob)
	}
	return checkBlobs(blobs, total)
}

// checkBlobs returns an error if a blob is invalid, or if all blobs together, each counted
// once, have more than total bytes.
func checkBlobs(blobs []Blob, total int64) error {
	sizes, left := make(map[string]int64, len(blobs)), total
	for _, b := range blobs {
		size, isKnown := sizes[b.Sum]
		switch {
		case !b.isValid() || isKnown && size != b.Size:
			return fmt.Errorf("it has an invalid blob: sha256 %.70q, %d bytes", b.Sum, b.Size)
		case isKnown:
			continue
		case b.Size > left:
			return fmt.Errorf("it is larger than max_version_bytes, %d bytes; raise that setting on every instance, or make its word lists smaller", total)
		}
		sizes[b.Sum] = b.Size
		left -= b.Size
	}
	return nil
}

// isValid reports whether a content can have the hash and the size.
func (b Blob) isValid() bool { return isSum(b.Sum) && b.Size >= 0 }

// isText reports whether s may appear in logs and on terminals.
func isText(s string, limit int) bool {
	if len(s) > limit || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}

// isSum reports whether s is the hash of a blob.
func isSum(s string) bool {
	sum, err := hex.DecodeString(s)
	return err == nil && len(sum) == sha256.Size && hex.EncodeToString(sum) == s
}
