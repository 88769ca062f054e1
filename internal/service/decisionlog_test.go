package service

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/koalagate/koalagate/internal/config"
)

// fill writes half as much again as a decision log may hold.
func fill(t *testing.T, path string) (written int64) {
	t.Helper()
	c := config.Default()
	c.DecisionLog, c.DecisionLogMaxSize = path, megabyte
	log, err := openRotated(&c)
	if err != nil {
		t.Fatal(err)
	}
	line := append(bytes.Repeat([]byte("x"), 1<<16-1), '\n')
	for range 24 {
		n, err := log.Write(line)
		if err != nil {
			t.Fatal(err)
		}
		written += int64(n)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return written
}

// A log may be /dev/stdout, which links to a pipe: that is no file to move
// aside, and its name is not ours.
func TestDecisionsToAPipe(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	keep, err := os.OpenFile(pipe, os.O_WRONLY, 0) // so that the reader sees no end before the first line
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, reader) // its count says whether it failed
		read <- n
	}()
	written := fill(t, link)
	if err := keep.Close(); err != nil {
		t.Fatal(err)
	}
	if n := <-read; n != written {
		t.Errorf("%d bytes came through the pipe; want %d", n, written)
	}
	wantNames(t, dir, 2, link)
}

// Behind a link the file moves aside, and the link leads to the next.
func TestDecisionsBehindALink(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	link := filepath.Join(dir, "decisions.jsonl")
	if err := os.Symlink(filepath.Join(to, "decisions.jsonl"), link); err != nil {
		t.Fatal(err)
	}
	fill(t, link)
	wantNames(t, dir, 1, link)
	wantNames(t, to, 2, link)
}

// wantNames checks how many names a folder has, and that link is one still.
func wantNames(t *testing.T, dir string, want int, link string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != want {
		t.Errorf("%v; want %d names", entries, want)
	}
	if _, err := os.Readlink(link); err != nil {
		t.Error(err)
	}
}
