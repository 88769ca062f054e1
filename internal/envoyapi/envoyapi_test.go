package envoyapi_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/envoyapi"
	"github.com/koalagate/koalagate/internal/mapping"
)

func TestFaultsAsGRPCErrors(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		code   codes.Code
		detail string
	}{
		"malformed":           {door.Invalid("no descriptors"), codes.InvalidArgument, "no descriptors"},
		"invalid":             {&engine.InvalidError{Reason: "no hits"}, codes.InvalidArgument, "invalid call: no hits"},
		"without its address": {&mapping.Refusal{Status: 403, Reason: "no address"}, codes.PermissionDenied, "no address"},
		"canceled":            {context.Canceled, codes.Canceled, "context canceled"},
		"a zero engine":       {errors.New("engine: not built"), codes.Unavailable, "engine: not built"},
		"timed out":           {context.DeadlineExceeded, codes.DeadlineExceeded, "context deadline exceeded"},
	} {
		got := status.Convert(envoyapi.Error(door.FaultOf(test.err)))
		if got.Code() != test.code || got.Message() != test.detail {
			t.Errorf("%s: %v; want %v, %q", name, got, test.code, test.detail)
		}
	}
}

func TestCodesOfRefusals(t *testing.T) {
	for httpStatus, want := range map[int]codes.Code{
		400: codes.InvalidArgument, 401: codes.Unauthenticated, 403: codes.PermissionDenied, 418: codes.PermissionDenied, 429: codes.ResourceExhausted,
	} {
		if got := envoyapi.Code(httpStatus); got != want {
			t.Errorf("Code(%d) = %v; want %v", httpStatus, got, want)
		}
	}
}
