package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/koalagate/koalagate/bench/stats"
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
	unit := "Redis CPU µs per decision"
	fmt.Printf("\n| batches of %d | %s | ratio |\n| --- | --- | --- |\n", o.batch, unit)
	var dearer []string
	for i := range scenes {
		list := recorded(versions, scenes[i].name())
		if list == nil {
			continue
		}
		costs := make([][]float64, len(versions))
		for range o.rounds {
			for j, v := range versions {
				cost, err := v.player.turn(list[j], o.passes)
				if err != nil {
					return fmt.Errorf("%s: %w", scenes[i].name(), err)
				}
				costs[j] = append(costs[j], cost)
			}
		}
		dearer = append(dearer, row(scenes[i].name(), "%.1f", costs)...)
	}
	printDearer(dearer)
	return nil
}

// count compares instructions with those of another binary, if there is one, and with the
// kept figures.
func (o *options) count(ctx context.Context, stage *e2e.Stage, versions []*version) error {
	now := &kept{redis: versions[0].redis, scenes: map[string]float64{}}
	fmt.Printf("\n| batches of %d | Redis instructions per decision | ratio |\n| --- | --- | --- |\n", o.batch)
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
		dearer = append(dearer, row(scenes[i].name(), "%.0f", costs)...)
	}
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

// row prints the costs of a scene, a list for each version, and returns a line if the last
// version is dearer than the first.
func row(name, format string, costs [][]float64) []string {
	var medians []string
	for _, list := range costs {
		medians = append(medians, fmt.Sprintf(format, stats.Of(list).Median))
	}
	ratio := stats.Ratios(costs[len(costs)-1], costs[0])
	if len(costs) == 1 {
		ratio = stats.Of(nil)
	}
	fmt.Printf("| %s | %s | %s |\n", name, strings.Join(medians, " → "), ratio)
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
