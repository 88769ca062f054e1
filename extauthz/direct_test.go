package extauthz_test

import (
	"context"
	"encoding"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/koalagate/koalagate/extauthz"
)

// direct is a front without a connection: it calls the door as grpc does.
type direct struct {
	description *grpc.ServiceDesc
	door        any
}

func directly(o extauthz.Options) *direct {
	d := new(direct)
	extauthz.New(o).Register(d)
	return d
}

// RegisterService takes the door.
func (d *direct) RegisterService(description *grpc.ServiceDesc, door any) {
	d.description, d.door = description, door
}

// call takes a request in wire form and returns the reply in wire form.
func (d *direct) call(ctx context.Context, request []byte) ([]byte, error) {
	decode := func(v any) error { return v.(encoding.BinaryUnmarshaler).UnmarshalBinary(request) }
	reply, err := d.description.Methods[0].Handler(d.door, ctx, decode, nil)
	if err != nil {
		return nil, err
	}
	return reply.([]byte), nil
}

func wireOf(t testing.TB, m *authv3.CheckRequest) []byte {
	t.Helper()
	wire, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}
