package reload

import (
	"context"
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
	"time"

	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/rules"
)

// Maximum file sizes, in bytes. A million rules take about 100 MB, ten million
// words about 200 MB, a million rows of a table about 50 MB.
const (
	maxRuleFile = 256 << 20
	maxDict     = 2 << 30
	maxTable    = 1 << 30
	maxKeys     = 1 << 20
)

// maxSummed is the size up to which content is compared by its hash. Larger
// files are compared by size, time and inode: hashing gigabytes at every check
// would cost a core.
const maxSummed = 1 << 20

// reader reads files and records a stamp of each, so that it can later report
// whether any has changed.
type reader struct {
	seen   map[string]stamp
	lists  map[string]*rules.Dict  // the parsed word lists
	tables map[string]*rules.Table // the parsed tables
	keys   map[string]*textFile    // the files of keys
	rules  map[string]*textFile    // the rule files
	// before is an earlier reader. The contents that it has not found to be changed are reused,
	// because reading 100,000 files, and parsing ten million entries, takes seconds.
	before *reader
}

// stamp is the state of a path at one time.
type stamp struct {
	info    fs.FileInfo // nil if the path could not be read
	sum     [sha256.Size]byte
	settled bool   // any later change of the file shows in info
	problem string // why it could not be read
}

// granularity is the coarsest step of the times that file systems record. Of a file that
// changed shortly before it was read, a second change may leave info as it is.
const granularity = 2 * time.Second

func newReader(before *reader) *reader {
	return &reader{
		seen: make(map[string]stamp), lists: make(map[string]*rules.Dict), tables: make(map[string]*rules.Table),
		keys: make(map[string]*textFile), rules: make(map[string]*textFile), before: before,
	}
}

// file passes the content of a regular file of at most limit bytes to read, with the pauses of ctx.
func (r *reader) file(ctx context.Context, path string, limit int64, read func(io.Reader) error) error {
	s, err := readFile(path, limit, func(text io.Reader) error { return read(pace.Reader(ctx, text)) })
	r.seen[path] = s
	return err
}

// list returns the word list at path.
func (r *reader) list(ctx context.Context, path string) (*rules.Dict, error) {
	return parsed(ctx, r, path, maxDict, rules.ParseDict, func(r *reader) map[string]*rules.Dict { return r.lists })
}

// table returns the table at path.
func (r *reader) table(ctx context.Context, path string) (*rules.Table, error) {
	return parsed(ctx, r, path, maxTable, rules.ParseTable, func(r *reader) map[string]*rules.Table { return r.tables })
}

// textFile is a file whose content is kept as it is.
type textFile struct{ content []byte }

func parseText(_ string, from io.Reader) (*textFile, error) {
	content, err := io.ReadAll(from)
	return &textFile{content}, err
}

// keyText returns the text of the file of keys at path.
func (r *reader) keyText(ctx context.Context, path string) ([]byte, error) {
	return r.text(ctx, path, maxKeys, func(r *reader) map[string]*textFile { return r.keys })
}

// ruleText returns the text of the rule file at path.
func (r *reader) ruleText(ctx context.Context, path string) ([]byte, error) {
	return r.text(ctx, path, maxRuleFile, func(r *reader) map[string]*textFile { return r.rules })
}

func (r *reader) text(ctx context.Context, path string, limit int64, kept func(*reader) map[string]*textFile) ([]byte, error) {
	file, err := parsed(ctx, r, path, limit, parseText, kept)
	if err != nil {
		return nil, err
	}
	return file.content, nil
}

// parsed returns the content of the file at path, which parse reads and kept keeps. It
// parses each file once per generation, and reuses what the reader before has. Should the file have
// changed since that was checked, changed will report it.
func parsed[T any](ctx context.Context, r *reader, path string, limit int64, parse func(string, io.Reader) (*T, error), kept func(*reader) map[string]*T) (*T, error) {
	if content := kept(r)[path]; content != nil {
		return content, nil // even if the file has changed: a set uses one content
	}
	if r.before != nil && kept(r.before)[path] != nil {
		r.seen[path], kept(r)[path] = r.before.seen[path], kept(r.before)[path]
		return kept(r)[path], pace.Step(ctx)
	}
	var content *T
	err := r.file(ctx, path, limit, func(text io.Reader) (err error) {
		content, err = parse(path, text)
		return err
	})
	if err != nil {
		return nil, err
	}
	kept(r)[path] = content
	return content, nil
}

// folder returns the *.conf files of a folder in order of name. It skips hidden
// files, which editors create next to the file.
func (r *reader) folder(path string) ([]string, error) {
	s, names, err := readFolder(path)
	r.seen[path] = s
	return names, err
}

// changed reports whether any path has changed since it was read. The reader forgets the content
// of each changed file.
func (r *reader) changed() (found bool) {
	for path, before := range r.seen {
		now, same := before.again(path)
		if same {
			r.seen[path] = now
			continue
		}
		found = true
		delete(r.lists, path)
		delete(r.tables, path)
		delete(r.keys, path)
		delete(r.rules, path)
	}
	return found
}

// paths returns the files and folders that were read.
func (r *reader) paths() []string { return slices.Collect(maps.Keys(r.seen)) }

// content returns a hash of all stamps, to recognize a repeated error.
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

// stampOf returns the current stamp of a path.
func stampOf(path string) stamp {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return failedStamp(err)
	case info.IsDir():
		s, _, _ := readFolder(path)
		return s
	case info.Mode().IsRegular() && info.Size() <= maxSummed:
		s, _ := readFile(path, maxSummed, func(io.Reader) error { return nil })
		return s
	}
	// The content of other files is not read, but they are opened, so that the
	// error is the same as when they were read.
	f, err := open(path)
	if err != nil {
		return failedStamp(err)
	}
	f.Close()
	return stamp{info: info}
}

// open opens a file without blocking if it is a pipe.
func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the operator provides the path
}

// again returns the current stamp of the path of s, and whether nothing has changed. It reads
// the file only if a change could leave no other trace.
func (s stamp) again(path string) (now stamp, same bool) {
	if s.settled {
		if info, err := os.Stat(path); err == nil && s.sameFile(info) && changeTime(info).Equal(changeTime(s.info)) {
			return s, true
		}
	}
	now = stampOf(path)
	return now, s.same(now)
}

func (s stamp) same(t stamp) bool {
	if s.info == nil || t.info == nil {
		return s.info == t.info && s.problem == t.problem
	}
	if s.info.Mode().Type() != t.info.Mode().Type() || s.sum != t.sum {
		return false
	}
	return s.info.IsDir() || s.sameFile(t.info)
}

// sameFile reports whether info is of the file of s, and has its size and time.
func (s stamp) sameFile(info fs.FileInfo) bool {
	return os.SameFile(s.info, info) && s.info.Size() == info.Size() && s.info.ModTime().Equal(info.ModTime())
}

// failedStamp returns the stamp of a path that cannot be read. It does not depend
// on which system call failed.
func failedStamp(err error) stamp {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return stamp{problem: err.Error()}
}

// errChanging reports that a file was modified while it was read.
var errChanging = errors.New("changed while it was read")

// readFile passes the content of a regular file to read. Any other file could
// block or never end: it is opened without blocking, and rejected before the
// first byte is read.
func readFile(path string, limit int64, read func(io.Reader) error) (stamp, error) {
	f, err := open(path)
	if err != nil {
		return failedStamp(err), err
	}
	defer f.Close()
	began := time.Now()
	before, err := f.Stat()
	if err != nil {
		return failedStamp(err), err
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
	readErr := read(content)
	// Read the rest, too: the stamp covers the whole file.
	if _, err := io.Copy(io.Discard, content); err != nil {
		return failedStamp(err), err
	}
	after, err := f.Stat()
	if err != nil {
		return failedStamp(err), err
	}
	if after.Size() != content.size || !after.ModTime().Equal(before.ModTime()) {
		return failedStamp(errChanging), fmt.Errorf("%s: %w", path, errChanging)
	}
	if content.sum != nil {
		content.sum.Sum(s.sum[:0])
	}
	changed := changeTime(before)
	s.settled = !changed.IsZero() && changed.Equal(changeTime(after)) && began.Sub(changed) > granularity
	return s, readErr
}

// content counts the bytes read from a file, and hashes them if sum is set.
type content struct {
	from io.Reader
	size int64
	sum  hash.Hash
}

// Read implements io.Reader.
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
		return failedStamp(err), nil, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return failedStamp(err), nil, err
	}
	var names []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".conf" && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, filepath.Join(path, e.Name()))
		}
	}
	return stamp{info: info, sum: sha256.Sum256([]byte(strings.Join(names, "\x00")))}, names, nil
}
