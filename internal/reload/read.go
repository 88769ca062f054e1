package reload

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/koalagate/koalagate/rules"
)

// The bounds of what is read, in bytes. A million rules take about 100 MB, ten
// million words about 200.
const (
	maxRuleFile = 256 << 20
	maxDict     = 2 << 30
)

// maxSummed is the size up to which content is compared by its hash. Larger
// files are compared by what the file system says of them: to hash gigabytes
// at every look would cost a core.
const maxSummed = 1 << 20

// reader reads files, and remembers what it saw of each so that it can tell
// later whether any has changed.
type reader struct {
	seen  map[string]stamp
	lists map[string]*rules.Dict // the word lists that were parsed
	// before is an earlier reader, whose word lists serve again if their
	// files have not changed: one of ten million entries takes seconds.
	before *reader
}

// stamp is what was seen of one path.
type stamp struct {
	info    fs.FileInfo // nil where the path could not be read
	sum     [sha256.Size]byte
	problem string // why it could not be read
}

func newReader(before *reader) *reader {
	return &reader{seen: make(map[string]stamp), lists: make(map[string]*rules.Dict), before: before}
}

// file hands the content of a regular file of at most limit bytes to take.
func (r *reader) file(path string, limit int64, take func(io.Reader) error) error {
	s, err := readFile(path, limit, take)
	r.seen[path] = s
	return err
}

// list parses the word list at path, unless that was done before: for another
// name in this generation, or for the one before.
func (r *reader) list(path string) (*rules.Dict, error) {
	list := r.lists[path]
	if list == nil { // else its file may have changed by now, and a set has one content of it
		list = r.known(path)
	}
	if list != nil {
		return list, nil
	}
	err := r.file(path, maxDict, func(text io.Reader) (err error) {
		list, err = rules.ParseDict(path, text)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.lists[path] = list
	return list, nil
}

// known is the word list at path as the reader before parsed it, nil if there
// is none or its file has changed.
func (r *reader) known(path string) *rules.Dict {
	if r.before == nil || r.before.lists[path] == nil {
		return nil
	}
	if s := r.before.seen[path]; s.same(look(path)) {
		r.seen[path], r.lists[path] = s, r.before.lists[path]
	}
	return r.lists[path]
}

// folder lists the *.conf of a folder in the order of their names, without
// hidden ones: editors keep theirs beside the file.
func (r *reader) folder(path string) ([]string, error) {
	s, names, err := readFolder(path)
	r.seen[path] = s
	return names, err
}

// changed tells whether any path has changed since it was read.
func (r *reader) changed() bool {
	for path, before := range r.seen {
		if !before.same(look(path)) {
			return true
		}
	}
	return false
}

// paths are the files and folders that were read.
func (r *reader) paths() []string { return slices.Collect(maps.Keys(r.seen)) }

// content is a hash of all that was seen, to know the same fault again.
func (r *reader) content() [sha256.Size]byte {
	h := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(r.seen)) {
		s := r.seen[path]
		fmt.Fprintf(h, "%q %q %x", path, s.problem, s.sum)
		if s.info != nil && s.info.Size() > maxSummed {
			fmt.Fprint(h, s.info.Size(), s.info.ModTime().UnixNano())
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// look takes the stamp that a path has now.
func look(path string) stamp {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return failed(err)
	case info.IsDir():
		s, _, _ := readFolder(path)
		return s
	case info.Mode().IsRegular() && info.Size() <= maxSummed:
		s, _ := readFile(path, maxSummed, func(io.Reader) error { return nil })
		return s
	}
	// Their content is not looked at; whether they can be opened is, as it was
	// when they were read.
	f, err := open(path)
	if err != nil {
		return failed(err)
	}
	f.Close()
	return stamp{info: info}
}

// open opens a file, and waits for nobody where it is a pipe.
func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the path is the operator's own
}

func (s stamp) same(t stamp) bool {
	if s.info == nil || t.info == nil {
		return s.info == t.info && s.problem == t.problem
	}
	if s.info.Mode().Type() != t.info.Mode().Type() || s.sum != t.sum {
		return false
	}
	return s.info.IsDir() || os.SameFile(s.info, t.info) && s.info.Size() == t.info.Size() && s.info.ModTime().Equal(t.info.ModTime())
}

// failed is the stamp of a path that cannot be read, whichever call failed.
func failed(err error) stamp {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return stamp{problem: err.Error()}
}

// errMoving tells that a file was written to while it was read.
var errMoving = errors.New("changed while it was read")

// readFile hands the content of a regular file to take. Anything else could
// block or never end: it is opened without waiting, and refused before the
// first byte is read.
func readFile(path string, limit int64, take func(io.Reader) error) (stamp, error) {
	f, err := open(path)
	if err != nil {
		return failed(err), err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return failed(err), err
	}
	s := stamp{info: before}
	if before.IsDir() {
		s, _, _ = readFolder(path)
	}
	if !before.Mode().IsRegular() {
		return s, fmt.Errorf("%s: not a regular file", path)
	}
	if before.Size() > limit {
		return s, fmt.Errorf("%s: %d bytes; want at most %d", path, before.Size(), limit)
	}
	content := &content{from: io.LimitReader(f, before.Size()+1)}
	if before.Size() <= maxSummed {
		content.sum = sha256.New()
	}
	fault := take(content)
	// What take has left is read too: the stamp is that of the whole file.
	if _, err := io.Copy(io.Discard, content); err != nil {
		return failed(err), err
	}
	after, err := f.Stat()
	if err != nil {
		return failed(err), err
	}
	if after.Size() != content.size || !after.ModTime().Equal(before.ModTime()) {
		return failed(errMoving), fmt.Errorf("%s: %w", path, errMoving)
	}
	if content.sum != nil {
		content.sum.Sum(s.sum[:0])
	}
	return s, fault
}

// content measures what is read of a file, and sums it up if it has a sum.
type content struct {
	from io.Reader
	size int64
	sum  hash.Hash
}

// Read reads on.
func (c *content) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.size += int64(n)
	if c.sum != nil {
		c.sum.Write(b[:n])
	}
	return n, err
}

func readFolder(path string) (stamp, []string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return failed(err), nil, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return failed(err), nil, err
	}
	var names []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".conf" && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, filepath.Join(path, e.Name()))
		}
	}
	return stamp{info: info, sum: sha256.Sum256([]byte(strings.Join(names, "\x00")))}, names, nil
}
