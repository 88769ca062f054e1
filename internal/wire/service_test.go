package wire_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/internal/wire"
)

// recorded is a call that records what the service does with it.
type recorded struct {
	request, reply []byte
	err            error
	panics         bool
	answered       bool
	limited        bool // Answer has a deadline
	ends           int
}

func (r *recorded) UnmarshalBinary(request []byte) error {
	r.request = append(r.request, request...)
	if string(request) == "panic" {
		panic("of the test")
	}
	if len(request) == 0 {
		return errors.New("empty")
	}
	return nil
}

func (r *recorded) Answer(ctx context.Context) ([]byte, error) {
	_, r.limited = ctx.Deadline()
	if r.answered = true; r.panics {
		panic("of the test")
	}
	return r.reply, r.err
}

func (r *recorded) End() { r.ends++ }

func TestServiceEndsEveryCall(t *testing.T) {
	failed := status.Error(codes.Unavailable, "failed")
	for name, test := range map[string]struct {
		call    recorded
		request string
		reply   string
		log     string
		code    codes.Code
	}{
		"answered":       {call: recorded{reply: []byte("r")}, request: "q", reply: "r"},
		"failed":         {call: recorded{err: failed}, request: "q", code: codes.Unavailable},
		"panicked":       {call: recorded{panics: true}, request: "q", log: "panicked", code: codes.Internal},
		"without answer": {call: recorded{}, request: "q", log: "neither a message nor an error", code: codes.Internal},
	} {
		call := test.call
		s := wire.NewService(&authv3.Authorization_ServiceDesc, func() wire.Call { return &call })
		var log strings.Builder
		var begun, ended int
		guard := &wire.Guard{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Begun:  func() { begun++ },
			Ended: func(method string, code codes.Code) {
				if ended++; method != authv3.Authorization_Check_FullMethodName || code != test.code || call.ends != 0 {
					t.Errorf("%s: %s ended with %v, want %v; the call ended %d times before", name, method, code, test.code, call.ends)
				}
			},
			Unread: func(err error) { t.Errorf("%s: unread: %v", name, err) },
		}
		reply, err := s.Describe(guard).Methods[0].Handler(s, t.Context(), decoder(test.request), nil)
		var got []byte
		if r, ok := reply.(*mem.BufferSlice); ok {
			got = (*r)[0].ReadOnlyData()
		}
		if string(got) != test.reply || status.Code(err) != test.code || !call.answered || call.ends != 1 || begun != 1 || ended != 1 {
			t.Errorf("%s: reply %q, error %v, answered %v, ended %d times; the guard saw %d begin and %d end", name, got, err, call.answered, call.ends, begun, ended)
		}
		if (test.log == "") != (log.Len() == 0) || !strings.Contains(log.String(), test.log) {
			t.Errorf("%s: the log is %q; want %q in it", name, log.String(), test.log)
		}
		if len(got) > 0 && &got[0] == &call.reply[0] {
			t.Errorf("%s: the reply is the memory of the call, which is reused", name)
		}
	}
}

// The time in which a request must arrive is no time for its answer, which has the caller's.
func TestAnswersOutlastTheArrival(t *testing.T) {
	for name, limited := range map[string]bool{"a caller that waits": false, "a caller with a deadline": true} {
		var call recorded
		call.reply = []byte("r")
		s := wire.NewService(&authv3.Authorization_ServiceDesc, func() wire.Call { return &call })
		ctx := t.Context()
		if limited {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Hour)
			defer cancel()
		}
		arrival := wire.WithArrivalTimeout(ctx, time.Minute)
		if until, found := arrival.Deadline(); !found || time.Until(until) > time.Minute {
			t.Errorf("%s: a request may arrive until %v, %v; want within a minute", name, until, found)
		}
		if _, err := s.Describe(new(wire.Guard)).Methods[0].Handler(s, arrival, decoder("q"), nil); err != nil || call.limited != limited {
			t.Errorf("%s: error %v, the answer has a deadline: %v; want %v", name, err, call.limited, limited)
		}
	}
}

func decoder(request string) func(any) error {
	return func(v any) error { return v.(wire.Call).UnmarshalBinary([]byte(request)) }
}

func TestServiceEndsUnreadableCalls(t *testing.T) {
	var call recorded
	var unread error
	s := wire.NewService(&authv3.Authorization_ServiceDesc, func() wire.Call { return &call })
	guard := &wire.Guard{
		Begun:  func() { t.Error("an unreadable call began") },
		Unread: func(err error) { unread = err },
	}
	if _, err := s.Describe(guard).Methods[0].Handler(s, t.Context(), decoder(""), nil); err == nil || !errors.Is(unread, err) {
		t.Errorf("error %v; the guard saw %v", err, unread)
	}
	if call.answered || call.ends != 1 {
		t.Errorf("answered %v, ended %d times", call.answered, call.ends)
	}
}

// A panic while a request is read ends the call alone.
func TestServiceOutlivesAPanicOfAReader(t *testing.T) {
	var call recorded
	var log strings.Builder
	s := wire.NewService(&authv3.Authorization_ServiceDesc, func() wire.Call { return &call })
	guard := &wire.Guard{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	_, err := s.Describe(guard).Methods[0].Handler(s, t.Context(), decoder("panic"), nil)
	if status.Code(err) != codes.Internal || call.answered || call.ends != 1 || !strings.Contains(log.String(), "panicked") {
		t.Errorf("error %v, answered %v, ended %d times; the log is %q", err, call.answered, call.ends, log.String())
	}
}

func TestServiceHasTheGeneratedNames(t *testing.T) {
	got := wire.NewService[wire.Call](&authv3.Authorization_ServiceDesc, nil).Describe(new(wire.Guard))
	want := &authv3.Authorization_ServiceDesc
	if got.ServiceName != want.ServiceName || got.Methods[0].MethodName != want.Methods[0].MethodName || got.Metadata != want.Metadata {
		t.Errorf("the service is %+v; want the names of %+v", got, want)
	}
}
