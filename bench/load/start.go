package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/koalagate/koalagate/bench/process"
	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/bench/stats"
)

// startSection is the name of the section about starts.
const startSection = "Start of an instance"

// starts measures how long instances take from their start to their first decision, and
// their memory then.
func (r *run) starts(ctx context.Context) error {
	if !r.only.MatchString(startSection) {
		return nil
	}
	t := report.Table{Columns: []string{"rules", "first decision after s", "resident MB"}}
	for _, c := range []struct {
		name           string
		rules, entries int
		starts         int
	}{
		{"10", 10, 0, r.promised.rounds},
		{"10,000", 10_000, 0, r.others.rounds},
		{fmt.Sprintf("10,000, and a word list of %d", r.entries), 10_000, r.entries, 1},
	} {
		file, err := r.scene.manyRules(c.rules, c.entries)
		if err != nil {
			return err
		}
		var took, memory []float64
		for range c.starts {
			begin := time.Now()
			k, err := r.scene.stage.Koalagate(r.scene.binary, nil, "--rules", file)
			if err != nil {
				return err
			}
			if _, err := fetch(ctx, "http://"+k.HTTP+"/rule/take?act=act7&uid=1001"); err != nil {
				return err
			}
			took = append(took, time.Since(begin).Seconds())
			resident, err := residentOf(process.ID(k.PID()))
			if err != nil {
				return err
			}
			memory = append(memory, resident)
			if err := k.Stop(); err != nil {
				return err
			}
		}
		s, mb := stats.Of(took), stats.Of(memory)
		t.Rows = append(t.Rows, []string{c.name, fmt.Sprintf("%.3f", s.Median), fmt.Sprintf("%.0f", mb.Median)})
		if c.rules == 10 {
			ready := stats.Value{Median: 1000 * s.Median, Least: 1000 * s.Least, Most: 1000 * s.Most}
			r.FigureIn(" ms", "an instance with ten rules, start to first decision", &ready)
			r.FigureIn(" MB", "an instance with ten rules, resident memory", &mb)
		}
	}
	r.Add(report.Section{Name: startSection, Text: "From the start of the program, in process.", Tables: []report.Table{t}})
	return nil
}

// manyRules writes a rule file, with a word list that the first rule looks up if it has
// entries.
func (s *scene) manyRules(rules, entries int) (string, error) {
	var b strings.Builder
	b.WriteString("[settings]\ntimezone : UTC\n")
	condition := "act=+"
	if entries > 0 {
		b.WriteString("[dicts]\nwords : start.dat\n")
		condition = "act @ words"
		if err := writeWords(filepath.Join(s.dir, "start.dat"), entries); err != nil {
			return "", err
		}
	}
	fmt.Fprintf(&b, "[rules]\nrule : [direct] [%s; none=+] [] [result=2; return=1]\n", condition)
	for i := 1; i < rules; i++ {
		fmt.Fprintf(&b, "rule : [count] [act=act%d; uid=+] [time=60; count=1000000000] [result=2; return=%d]\n", i, i+1)
	}
	b.WriteString("[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n[end]\n")
	file := filepath.Join(s.dir, "start.conf")
	return file, os.WriteFile(file, []byte(b.String()), 0o600)
}

// writeWords writes a list of words.
func writeWords(file string, number int) error {
	f, err := os.Create(file) //nolint:gosec // a file of the scene
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for i := range number {
		fmt.Fprintf(w, "word%08d\n", i)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// residentOf returns the resident memory of a process in MB.
func residentOf(p process.ID) (float64, error) {
	bytes, err := p.Memory()
	return float64(bytes) / 1e6, err
}
