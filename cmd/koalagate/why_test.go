package main

import (
	"testing"

	"github.com/koalagate/koalagate/internal/operations"
)

func TestCountersInWords(t *testing.T) {
	for want, r := range map[string]operations.WhyRule{
		"1 used of 9, 8 remaining": {Limit: 9, Used: 1, Remaining: 8},
		"40 used of 1000, 960 remaining, up to 30 of the used held in advance by other instances, empty again in 2s": {
			Limit: 1000, Used: 40, Remaining: 960, Leased: 30, ResetMS: 2000,
		},
		"9 used of 9, 0 remaining, empty again in 1m0s; refuses for another 1.5s": {Limit: 9, Used: 9, ResetMS: 60_000, RetryMS: 1500},
		"9 used of 9, 0 remaining; banned for another 1m0s":                       {Limit: 9, Used: 9, ResetMS: 60_000, RetryMS: 60_000, BannedMS: 60_000},
		"0 used of 0, 0 remaining; refuses always":                                {RetryMS: -1},
	} {
		if got := counterText(&r); got != want {
			t.Errorf("%+v:\n%s, want\n%s", r, got, want)
		}
	}
}
