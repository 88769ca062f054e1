package envoy

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/koalagate/koalagate/internal/wire"
)

// TestOnlyThisServerTakesWireServices: a plain grpc.Server would accept such a service
// and fail every call, so that registering a door on one must not compile.
func TestOnlyThisServerTakesWireServices(t *testing.T) {
	front := reflect.TypeFor[wire.Front]()
	if !reflect.TypeFor[*Server]().Implements(front) {
		t.Error("Server is not a wire.Front")
	}
	if reflect.TypeFor[*grpc.Server]().Implements(front) {
		t.Error("grpc.Server is a wire.Front")
	}
}

func TestCodecKeepsGeneratedMessages(t *testing.T) {
	for name, m := range map[string]proto.Message{
		"a health check": &healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_SERVING},
		"nothing at all": new(healthv1.HealthCheckRequest),
	} {
		wire, err := newCodec(1 << 20).Marshal(m)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := m.ProtoReflect().New().Interface()
		if err := newCodec(1<<20).Unmarshal(wire, got); err != nil || !proto.Equal(m, got) {
			t.Errorf("%s: received %v, %v; want %v", name, got, err, m)
		}
	}
}

func TestCodecSendsRepliesUnchanged(t *testing.T) {
	for _, content := range []string{"\x08\x01", strings.Repeat("long", 1000)} {
		sent, err := newCodec(1 << 20).Marshal(wire.NewReply([]byte(content)))
		if got := string(sent.Materialize()); err != nil || got != content {
			t.Errorf("sent %q, %v; want %q", got, err, content)
		}
	}
}

// itself is a request that reads itself.
type itself struct{ read string }

// UnmarshalBinary rejects an empty message.
func (i *itself) UnmarshalBinary(wire []byte) error {
	if i.read = string(wire); i.read == "" {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func TestCodecLetsRequestsReadThemselves(t *testing.T) {
	for _, sent := range []string{"as it came", strings.Repeat("in parts", 2)} {
		var got itself
		half := len(sent) / 2
		parts := mem.BufferSlice{mem.SliceBuffer([]byte(sent[:half])), mem.SliceBuffer([]byte(sent[half:]))}
		if err := newCodec(1<<20).Unmarshal(parts, &got); err != nil || got.read != sent {
			t.Errorf("read %q, %v; want %q", got.read, err, sent)
		}
	}
	if err := newCodec(1<<20).Unmarshal(nil, new(itself)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v; want the error of the request", err)
	}
}

func TestEmptyRepliesAreNotMessages(t *testing.T) {
	for _, reply := range []any{nil, (*authv3.CheckResponse)(nil), "a text"} {
		if isMessage(reply) {
			t.Errorf("%#v would be sent", reply)
		}
	}
	if !isMessage(new(authv3.CheckResponse)) {
		t.Error("a message would not be sent")
	}
}
