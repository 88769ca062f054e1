package wire_test

import (
	"context"
	"errors"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"

	"github.com/koalagate/koalagate/internal/wire"
)

// recorded is a call that records what the service does with it.
type recorded struct {
	request, reply []byte
	err            error
	answered       bool
	ends           int
}

func (r *recorded) UnmarshalBinary(request []byte) error {
	r.request = append(r.request, request...)
	if len(request) == 0 {
		return errors.New("empty")
	}
	return nil
}

func (r *recorded) Answer(context.Context) ([]byte, error) {
	r.answered = true
	return r.reply, r.err
}

func (r *recorded) End() { r.ends++ }

func TestServiceEndsEveryCall(t *testing.T) {
	failed := errors.New("failed")
	for name, test := range map[string]struct {
		call    recorded
		request string
		intercept,
		answered bool
		reply string
		err   bool
	}{
		"answered":             {call: recorded{reply: []byte("r")}, request: "q", answered: true, reply: "r"},
		"answered, in a guard": {call: recorded{reply: []byte("r")}, request: "q", intercept: true, answered: true, reply: "r"},
		"failed":               {call: recorded{err: failed}, request: "q", answered: true, err: true},
		"unreadable":           {call: recorded{}, request: "", err: true},
	} {
		call := test.call
		s := wire.NewService(&authv3.Authorization_ServiceDesc, func() wire.Call { return &call })
		var intercept grpc.UnaryServerInterceptor
		if test.intercept {
			intercept = func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
				if info.FullMethod != authv3.Authorization_Check_FullMethodName || call.ends != 0 {
					t.Errorf("%s: the method is %s, ended %d times", name, info.FullMethod, call.ends)
				}
				return handle(ctx, request)
			}
		}
		decode := func(v any) error { return v.(wire.Call).UnmarshalBinary([]byte(test.request)) }
		reply, err := s.Description().Methods[0].Handler(s, t.Context(), decode, intercept)
		got, _ := reply.([]byte)
		if string(got) != test.reply || (err != nil) != test.err || call.answered != test.answered || call.ends != 1 {
			t.Errorf("%s: reply %q, error %v, answered %v, ended %d times", name, got, err, call.answered, call.ends)
		}
		if len(got) > 0 && &got[0] == &call.reply[0] {
			t.Errorf("%s: the reply is the memory of the call, which is reused", name)
		}
	}
}

func TestServiceHasTheGeneratedNames(t *testing.T) {
	got := wire.NewService(&authv3.Authorization_ServiceDesc, nil).Description()
	want := &authv3.Authorization_ServiceDesc
	if got.ServiceName != want.ServiceName || got.Methods[0].MethodName != want.Methods[0].MethodName || got.Metadata != want.Metadata {
		t.Errorf("the service is %+v; want the names of %+v", got, want)
	}
}
