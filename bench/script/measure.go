package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/bench/stats"
	"github.com/koalagate/koalagate/bench/traffic"
	"github.com/koalagate/koalagate/e2e"
)

// measure compares the binaries, of which the last one is that of this commit.
func (o *options) measure(ctx context.Context, stage *e2e.Stage, dir string, binaries []string) error {
	var versions []*version
	for _, binary := range binaries {
		v, err := o.openVersion(ctx, stage, dir, binary)
		if err != nil {
			return err
		}
		versions = append(versions, v)
	}
	if o.instructions {
		return o.count(ctx, stage, versions)
	}
	// All scenes take turns, because figures compare one with another, too.
	costs := map[string][][]float64{}
	for range o.rounds {
		for i := range scenes {
			name := scenes[i].name()
			list := recorded(versions, name)
			if list == nil {
				continue
			}
			if costs[name] == nil {
				costs[name] = make([][]float64, len(versions))
			}
			for j, v := range versions {
				cost, err := v.player.turn(list[j], o.passes)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				costs[name][j] = append(costs[name][j], cost)
			}
		}
	}
	t := o.table("Redis CPU µs per decision")
	var dearer []string
	for i := range scenes {
		if name := scenes[i].name(); costs[name] != nil {
			dearer = append(dearer, row(t, name, "%.1f", costs[name])...)
		}
	}
	own := func(scene string) []float64 {
		if all := costs[scene]; all != nil {
			return all[len(all)-1]
		}
		return nil
	}
	p := o.report.Begin()
	p.Chapter("The script in Redis", fmt.Sprintf("A redis-server alone replays script calls of %d decisions, %d rounds.", o.batch, o.rounds))
	p.Add(report.Section{Name: "Redis alone", Tables: []report.Table{*t}})
	for _, one := range []struct{ scene, relative string }{
		{traffic.FourOfOne.Name, traffic.Four.Name}, {traffic.EightOfOne.Name, traffic.Four.Name},
	} {
		ratio := stats.Ratios(own(one.scene), own(one.relative))
		p.Figure("Redis alone, "+one.scene+", CPU relative to "+one.relative, &ratio)
	}
	printDearer(dearer)
	return o.report.End(p)
}

// table returns a table without rows.
func (o *options) table(unit string) *report.Table {
	return &report.Table{Columns: []string{fmt.Sprintf("batches of %d", o.batch), unit, "ratio"}}
}

// count compares instructions with those of another binary, if there is one, and with the
// kept figures.
func (o *options) count(ctx context.Context, stage *e2e.Stage, versions []*version) error {
	now := &kept{redis: versions[0].redis, scenes: map[string]float64{}}
	t := o.table("Redis instructions per decision")
	var dearer []string
	for i := range scenes {
		list := recorded(versions, scenes[i].name())
		if list == nil || scenes[i].timed {
			continue
		}
		var costs [][]float64
		for _, r := range list {
			n, err := instructions(ctx, stage, r)
			if err != nil {
				return fmt.Errorf("%s: %w", scenes[i].name(), err)
			}
			costs = append(costs, []float64{n})
		}
		now.scenes[scenes[i].name()] = costs[len(costs)-1][0]
		dearer = append(dearer, row(t, scenes[i].name(), "%.0f", costs)...)
	}
	fmt.Print("\n", t.Markdown())
	printDearer(dearer)
	if o.update {
		return os.WriteFile(figures, []byte(now.String()), 0o644) //nolint:gosec // a file of the repository
	}
	if o.batch != keptBatch {
		return nil
	}
	file, err := os.Open(figures)
	if err != nil {
		return err
	}
	defer file.Close()
	before, err := parseKept(file)
	if err != nil {
		return fmt.Errorf("%s: %w", figures, err)
	}
	if faults := before.compare(now); len(faults) > 0 {
		return errors.New("more than the kept instructions; mend it, or run with -update and say why in the commit:\n" + strings.Join(faults, "\n"))
	}
	return nil
}

// recorded returns the recordings of a scene, nil unless all versions have one.
func recorded(versions []*version, name string) (list []*recording) {
	for _, v := range versions {
		if v.recordings[name] == nil {
			return nil
		}
		list = append(list, v.recordings[name])
	}
	return list
}

// row adds the costs of a scene, a list for each version, and returns a line if the last
// version is dearer than the first.
func row(t *report.Table, name, format string, costs [][]float64) []string {
	var medians []string
	for _, list := range costs {
		medians = append(medians, fmt.Sprintf(format, stats.Of(list).Median))
	}
	ratio := stats.Ratios(costs[len(costs)-1], costs[0])
	if len(costs) == 1 {
		ratio = stats.Of(nil)
	}
	t.Rows = append(t.Rows, []string{name, strings.Join(medians, " → "), ratio.String()})
	if ratio.Median > worse {
		return []string{fmt.Sprintf("* %s: %s", name, ratio)}
	}
	return nil
}

func printDearer(list []string) {
	if len(list) > 0 {
		fmt.Printf("\nMore than %v times as much as in the other version:\n\n%s\n", worse, strings.Join(list, "\n"))
	}
}
