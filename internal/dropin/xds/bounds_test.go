package xds_test

import (
	"bytes"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
)

// The fields of the messages, in wire form.
const (
	configName, configDescriptors                                                        = 1, 3
	descriptorKey, descriptorPolicy, descriptorDescriptors, descriptorMetadata           = 1, 3, 4, 8
	policyUnit, policyReplaces, structFields, entryKey, entryValue, valueText, valueList = 1, 5, 1, 1, 2, 3, 6
)

// of returns a message that has a field with a content.
func of(field protowire.Number, content ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), slices.Concat(content...))
}

// descriptor returns a descriptor of a configuration.
func descriptor(key string, fields ...[]byte) []byte {
	return of(configDescriptors, of(descriptorKey, []byte(key)), slices.Concat(fields...))
}

// children returns n fields with the descriptors below another.
func children(n int, key func(i int) string) []byte {
	var b []byte
	for i := range n {
		b = append(b, of(descriptorDescriptors, of(descriptorKey, []byte(key(i))))...)
	}
	return b
}

// levels returns a descriptor with n levels, each of which has the key.
func levels(n int, key string) []byte {
	first := of(descriptorKey, []byte(key))
	sizes := []int{len(first)}
	for range n - 1 {
		inner := sizes[len(sizes)-1]
		sizes = append(sizes, len(first)+protowire.SizeTag(descriptorDescriptors)+protowire.SizeBytes(inner))
	}
	field, b := protowire.Number(configDescriptors), []byte(nil)
	for _, size := range slices.Backward(sizes) {
		b = append(protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(size)), first...)
		field = descriptorDescriptors
	}
	return b
}

// config returns the resource of a domain with further fields.
func config(fields ...[]byte) *anypb.Any {
	return &anypb.Any{TypeUrl: ratelimitType, Value: slices.Concat(append([][]byte{of(2, []byte("d"))}, fields...)...)}
}

// metadata returns the field of a value below a name.
func metadata(value []byte) []byte {
	return of(descriptorMetadata, of(structFields, of(entryKey, []byte("m")), of(entryValue, value)))
}

// Two bytes of a response become some hundred bytes of memory, and keys of many levels are
// part of the names of all below them. Responses beyond the bounds are refused before they
// take that memory, with errors of a bounded length, and the last valid limits stay.
func TestResponsesBeyondTheirBoundsAreRefused(t *testing.T) {
	size := 4 << 20 // a million messages, and more, in each way
	if *long {
		size = 60 << 20
	}
	day := protowire.AppendVarint(protowire.AppendTag(nil, policyUnit, protowire.VarintType), 4)
	long := strings.Repeat("k", 1<<20)
	stars := func(i int) string { return strconv.Itoa(i) + "*" }
	empty := func(field protowire.Number) []byte { return bytes.Repeat(of(field), size/2) }
	list := func(r *anypb.Any, n int) []*anypb.Any { return slices.Repeat([]*anypb.Any{r}, n) }
	for name, c := range map[string]struct {
		resources []*anypb.Any
		want      string
	}{
		"empty descriptors":      {list(config(empty(configDescriptors)), 1), "more than 1000000 messages"},
		"empty replaces":         {list(config(descriptor("k", of(descriptorPolicy, day, empty(policyReplaces)))), 1), "more than 1000000 messages"},
		"empty metadata":         {list(config(descriptor("k", metadata(of(valueList, empty(1))))), 1), "more than 1000000 messages"},
		"many resources":         {list(&anypb.Any{}, size/4), "more than 1000000 messages"},
		"a domain many times":    {list(config(), size/80), "duplicate domain 'd'"},
		"two thousand levels":    {list(config(levels(2000, "k")), 1), "levels deep"},
		"a million levels":       {list(config(levels(1_000_000, "k")), 1), "levels deep"},
		"long keys on levels":    {list(config(levels(900, long[:50_000])), 1), "the names of all descriptors"},
		"a long key above many":  {list(config(descriptor(long, children(2000, strconv.Itoa))), 1), "the names of all descriptors"},
		"patterns":               {list(config(descriptor("k", children(20_000, stars))), 1), "keys of one level have a *"},
		"a key of stars":         {list(config(descriptor(strings.Repeat("*", size))), 1), "a key has " + strconv.Itoa(size) + " *"},
		"replaced names":         {list(config(descriptor("k", of(descriptorPolicy, day, bytes.Repeat(of(policyReplaces, of(1, []byte("n"))), 2000)))), 1), "replaces has 2000 entries"},
		"a long duplicate":       {list(config(descriptor(long), descriptor(long)), 1), "duplicate descriptor composite key"},
		"a long name":            {list(&anypb.Any{TypeUrl: ratelimitType, Value: of(configName, []byte(long))}, 1), "kkkk…"},
		"a long type":            {list(&anypb.Any{TypeUrl: long}, 1), "mismatched message type"},
		"long metadata":          {list(config(descriptor("k", metadata(of(valueText, []byte(long))))), 1), "the metadata has"},
		"no message":             {list(&anypb.Any{TypeUrl: ratelimitType, Value: bytes.Repeat([]byte{0xff}, size)}, 1), "proto: cannot parse"},
		"text that is not UTF-8": {list(config(descriptor("\xff")), 1), "invalid UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			answers := make(chan *discoveryv3.DiscoveryRequest, 2)
			next := make(chan struct{})
			h, address := startHostile(t, func(h *hostile, s stream) error {
				if err := h.send(s, "1", good(t)); err != nil {
					return err
				}
				first, err := s.Recv()
				if err != nil {
					return err
				}
				answers <- first
				<-next
				if err := h.send(s, "2", c.resources...); err != nil {
					return err
				}
				second, err := s.Recv()
				if err != nil {
					return err
				}
				answers <- second
				<-s.Context().Done()
				return nil
			})
			to, lines := runLogging(t, address, nil)
			<-answers
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			close(next)
			answer := <-answers
			runtime.ReadMemStats(&after)
			message := answer.GetErrorDetail().GetMessage()
			allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%d MB allocated: %.200s", allocated, message)
			if !strings.Contains(message, c.want) || len(message) > 3000 || len(to.rejection()) > 10_000 || answer.GetVersionInfo() != "1" {
				t.Errorf("the answer is %.500v, and the rejection %.200s; want %q", answer, to.rejection(), c.want)
			}
			if allocated > 1500 { // by the server of the test, too
				t.Errorf("%d MB were allocated; want at most 1500", allocated)
			}
			if to.loaded() != 1 || h.streams.Load() != 1 || len(lines.String()) > 1000 {
				t.Errorf("%d domains, %d streams, %d bytes of log", to.loaded(), h.streams.Load(), len(lines.String()))
			}
		})
	}
}
