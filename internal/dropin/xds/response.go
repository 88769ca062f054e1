package xds

import (
	"fmt"

	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/wire"
)

const (
	// maxMessages is the number of protobuf messages in a response: its resources, and
	// their descriptors, limits and values of metadata. One of two bytes becomes some
	// hundred bytes of memory.
	maxMessages = 1_000_000
	// maxNested is the number of levels of messages, as in the protobuf library.
	maxNested = 10_000
	// maxName is the length of a version and of a nonce, which return with each answer.
	maxName = 4096
)

// rawCodec leaves received messages as they are, so that their bounds are checked before
// they are decoded.
type rawCodec struct{}

// Name returns the name of the content type.
func (rawCodec) Name() string { return "proto" }

// Marshal encodes a protobuf message.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	text, err := proto.Marshal(v.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(text)}, err
}

// Unmarshal copies a message to a *[]byte.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// response is a DiscoveryResponse, whose resources are not decoded yet.
type response struct {
	version, typeURL, nonce string
	resources               []resource
}

// resource is an Any.
type resource struct{ typeURL, content []byte }

// readResponse reads a response. The error concerns a response that cannot be answered.
func readResponse(message []byte) (*response, error) {
	const version, resources, url, nonce = 1<<3 | wire.Bytes, 2<<3 | wire.Bytes, 4<<3 | wire.Bytes, 5<<3 | wire.Bytes
	r := new(response)
	fields := wire.Read(message)
	for fields.Next() {
		switch content := fields.Content(); fields.Tag {
		case version, nonce:
			if len(content) > maxName {
				return nil, fmt.Errorf("a response of the control plane has a version or nonce of %d bytes; want at most %d", len(content), maxName)
			}
			if fields.Tag == version {
				r.version = string(content)
			} else {
				r.nonce = string(content)
			}
		case url:
			r.typeURL = string(content[:min(len(content), maxName)])
		case resources:
			if len(r.resources) > maxMessages { // configs reports it
				continue
			}
			one, err := readResource(fields.Inner())
			if err != nil {
				return nil, err
			}
			r.resources = append(r.resources, one)
		}
	}
	return r, fields.Err
}

func readResource(fields wire.Fields) (r resource, err error) {
	const url, content = 1<<3 | wire.Bytes, 2<<3 | wire.Bytes
	for fields.Next() {
		switch fields.Tag {
		case url:
			r.typeURL = fields.Content()
		case content:
			r.content = fields.Content()
		}
	}
	return r, fields.Err
}

// configs decodes the resources. Its error is for the control plane.
func (r *response) configs() ([]*envoylimits.Config, error) {
	if r.typeURL != typeURL {
		return nil, fmt.Errorf("the type of the response is %.200q; want %q", r.typeURL, typeURL)
	}
	left := maxMessages - len(r.resources)
	if left < 0 {
		return nil, errTooMany
	}
	for i := range r.resources {
		one := &r.resources[i]
		if string(one.typeURL) != typeURL {
			return nil, fmt.Errorf("mismatched message type: resource %d has the type %.200q; want %q", i+1, one.typeURL, typeURL)
		}
		var err error
		if left, err = count(one.content, new(configv3.RateLimitConfig).ProtoReflect().Descriptor(), left, 0); err != nil {
			return nil, fmt.Errorf("resource %d: %w", i+1, err)
		}
	}
	configs := make([]*envoylimits.Config, len(r.resources))
	for i := range r.resources {
		m := new(configv3.RateLimitConfig)
		if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(r.resources[i].content, m); err != nil {
			return nil, fmt.Errorf("resource %d: %w", i+1, err)
		}
		configs[i] = envoylimits.FromProto(m)
	}
	return configs, nil
}

var (
	errTooMany = fmt.Errorf("the response has more than %d messages, such as resources, descriptors and limits", maxMessages)
	errTooDeep = fmt.Errorf("its messages are nested more than %d levels deep", maxNested)
)

// count counts the messages within a message of a type down from left.
func count(message []byte, kind protoreflect.MessageDescriptor, left, depth int) (int, error) {
	if depth > maxNested {
		return 0, errTooDeep
	}
	fields := wire.Read(message)
	for fields.Next() {
		if fields.Tag&7 != wire.Bytes {
			continue
		}
		field := kind.Fields().ByNumber(protowire.Number(fields.Tag >> 3))
		if field == nil || field.Message() == nil {
			continue
		}
		var err error
		if left--; left < 0 {
			return 0, errTooMany
		}
		if left, err = count(fields.Content(), field.Message(), left, depth+1); err != nil {
			return 0, err
		}
	}
	if fields.Err != nil {
		return 0, fmt.Errorf("proto: cannot parse the message: %w", fields.Err)
	}
	return left, nil
}
