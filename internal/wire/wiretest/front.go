// Package wiretest calls doors that know their messages in wire form as grpc
// does, for tests and measurements that need no connection.
package wiretest

import (
	"context"
	"encoding"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Front is the front of one door.
type Front struct {
	description *grpc.ServiceDesc
	door        any
}

// Door is what a front calls.
type Door interface {
	Register(front grpc.ServiceRegistrar)
}

// Open returns the front of a door.
func Open(door Door) *Front {
	f := new(Front)
	door.Register(f)
	return f
}

// RegisterService takes the door.
func (f *Front) RegisterService(description *grpc.ServiceDesc, door any) {
	f.description, f.door = description, door
}

// Call takes a request in wire form and returns the reply in wire form, or the
// error that the caller would get.
func (f *Front) Call(ctx context.Context, request []byte) ([]byte, error) {
	return f.Asking(request)(ctx)
}

// Asking returns what makes the same call each time, and allocates nothing of its
// own then.
func (f *Front) Asking(request []byte) func(context.Context) ([]byte, error) {
	decode := func(v any) error { return v.(encoding.BinaryUnmarshaler).UnmarshalBinary(request) }
	return func(ctx context.Context) ([]byte, error) {
		reply, err := f.description.Methods[0].Handler(f.door, ctx, decode, nil)
		if err != nil {
			return nil, err
		}
		return reply.([]byte), nil
	}
}

// Of is a message in wire form.
func Of(t testing.TB, m proto.Message) []byte {
	t.Helper()
	wire, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}
