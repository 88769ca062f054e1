package main

import "testing"

func TestShareOfATrial(t *testing.T) {
	for _, c := range []struct {
		part, whole int64
		want        string
	}{
		{0, 0, "0 %"},
		{0, 7, "0 %"},
		{2, 5, "40 %"},
		{1, 3, "33 %"},
		{1, 300, "0.33 %"},
		{1, 10_000_000, "0.00001 %"},
		{994, 1000, "99 %"},
		{996, 1000, "over 99 %"},
		{7, 7, "100 %"},
	} {
		if got := share(c.part, c.whole); got != c.want {
			t.Errorf("%d of %d are %s; want %s", c.part, c.whole, got, c.want)
		}
	}
}
