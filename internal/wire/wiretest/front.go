// Package wiretest calls services that work on messages in wire form as gRPC does,
// for tests and measurements that need no connection.
package wiretest

import (
	"context"
	"encoding"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/koalagate/koalagate/internal/wire"
)

// Front is a front for the service of one door.
type Front struct {
	service *wire.Service
	guard   wire.Guard
}

var _ wire.Front = (*Front)(nil)

// Door registers its service on a front.
type Door interface {
	Register(front wire.Front)
}

// Open returns the front of a door.
func Open(door Door) *Front {
	f := new(Front)
	door.Register(f)
	return f
}

// RegisterWire registers the service that Call calls.
func (f *Front) RegisterWire(s *wire.Service) { f.service = s }

// Call takes a request in wire form and returns the reply in wire form, or the
// error that a caller would get.
func (f *Front) Call(ctx context.Context, request []byte) ([]byte, error) {
	return f.Caller(request)(ctx)
}

// Caller returns a function that makes the same call each time and allocates
// nothing itself.
func (f *Front) Caller(request []byte) func(context.Context) ([]byte, error) {
	handler := f.service.Describe(&f.guard).Methods[0].Handler
	decode := func(v any) error { return v.(encoding.BinaryUnmarshaler).UnmarshalBinary(request) }
	return func(ctx context.Context) ([]byte, error) {
		reply, err := handler(f.service, ctx, decode, nil)
		if err != nil {
			return nil, err
		}
		return (*reply.(*mem.BufferSlice))[0].ReadOnlyData(), nil
	}
}

// Marshal returns a message in wire form.
func Marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	message, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return message
}
