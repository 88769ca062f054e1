package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// allocated returns how many allocations the subject has made so far, from its metrics; 0
// if they are omitted. Reading them costs the service CPU time and allocations.
func (s *subject) allocated(ctx context.Context) (float64, error) {
	if s.admin == "" {
		return 0, nil
	}
	page, err := fetch(ctx, "http://"+s.admin+"/metrics")
	if err != nil {
		return 0, err
	}
	return metricOf(string(page), "go_memstats_mallocs_total")
}

// metricOf returns a metric without labels of a page of metrics.
func metricOf(page, name string) (float64, error) {
	for line := range strings.Lines(page) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("the metrics of the service lack %s", name)
}
