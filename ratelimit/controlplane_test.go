package ratelimit_test

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/koalagate/koalagate/internal/dropin"
	"github.com/koalagate/koalagate/internal/dropin/statistics"
	"github.com/koalagate/koalagate/internal/dropin/xds"
	"github.com/koalagate/koalagate/internal/dropin/xds/xdstest"
)

// TestRecordedAnswersWithAControlPlane serves the recorded configurations over xDS. In the
// middle of each script the control plane sends a version that is invalid, ends the
// stream, restarts, and sends the same limits once more: no counter may change.
func TestRecordedAnswersWithAControlPlane(t *testing.T) {
	served := 0
	for _, r := range recordings(t) {
		text := strings.Join(r.Config, "")
		if strings.Contains(text, "share_threshold") || strings.Contains(text, "value_to_metric") {
			continue // which xDS does not carry
		}
		served++
		t.Run(r.Name, func(t *testing.T) {
			plane := xdstest.Start(t, nil)
			resources := make([]*anypb.Any, len(r.Config))
			for i, text := range r.Config {
				resources[i] = xdstest.Resource(t, "config."+strconv.Itoa(i), text)
			}
			counted := statistics.New(0.8)
			keeper := followPlane(t, plane, counted, r.Environment["MERGE_DOMAIN_CONFIG"] == "true")
			valid := plane.Publish(resources...)
			plane.Answer(valid)
			o := r.options(nil, counted)
			o.Current = keeper.Current
			limits := newLimits(t, o)
			for i, call := range r.Calls {
				if i == len(r.Calls)/2 {
					disturb(t, plane, valid, resources)
				}
				if got, want := answerTo(t, limits, call.Request), wanted(t, call.Answer); !cmp.Equal(want, got, protocmp.Transform()) {
					t.Errorf("call %d, %s:\n%s", i, call.Request, cmp.Diff(want, got, protocmp.Transform()))
				}
			}
		})
	}
	if served < 15 {
		t.Errorf("%d configurations; want at least 15", served)
	}
}

// followPlane returns a keeper of the limits of a control plane, without pauses between
// streams.
func followPlane(t *testing.T, plane *xdstest.Server, loads dropin.Loads, merge bool) *dropin.Keeper {
	t.Helper()
	silent := slog.New(slog.DiscardHandler)
	client, err := xds.New(xds.Options{Server: plane.Address, Backoff: xds.Backoff{Initial: time.Millisecond, Max: time.Millisecond}, Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	keeper := dropin.NewKeeper(merge, loads, silent)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); client.Run(ctx, keeper) }()
	t.Cleanup(func() { cancel(); <-ended })
	return keeper
}

// disturb sends an invalid version and the valid resources again, with an end of the
// stream and a restart between them.
func disturb(t *testing.T, plane *xdstest.Server, valid string, resources []*anypb.Any) {
	t.Helper()
	// A domain without a name, after the valid resources.
	invalid := plane.Publish(append(resources[:len(resources):len(resources)], xdstest.Resource(t, "nameless", "descriptors: []"))...)
	if answer := plane.Answer(invalid); answer.GetVersionInfo() != valid || answer.GetErrorDetail().GetMessage() != "nameless: config file cannot have empty domain" {
		t.Errorf("the answer to an invalid version is %v", answer)
	}
	again := plane.Publish(resources...)
	plane.Answer(again)
	plane.Drop()
	plane.Answers(again, 2)
	plane.Pause()
	plane.Resume()
	if answers := plane.Answers(again, 3); answers[2].GetErrorDetail() != nil || answers[2].GetVersionInfo() != again {
		t.Errorf("the answer after a restart is %v", answers[2])
	}
}
