package traffic

import (
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// RateLimitRequest returns a request to the rate limit service.
func RateLimitRequest(descriptors []Descriptor) *rlsv3.RateLimitRequest {
	r := &rlsv3.RateLimitRequest{Domain: Domain}
	for _, d := range descriptors {
		r.Descriptors = append(r.Descriptors, &ratelimitv3.RateLimitDescriptor{
			Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: d.Name, Value: d.Value}},
		})
	}
	return r
}

// ReceiptOf returns the receipt in an answer of the rate limit service, "" without one.
func ReceiptOf(answer *rlsv3.RateLimitResponse) string {
	return answer.GetDynamicMetadata().GetFields()["receipt"].GetStringValue()
}

// Settlement returns the request to the rate limit service that settles a receipt with two
// hits, where one was estimated.
func Settlement(receipt string) *rlsv3.RateLimitRequest {
	r := RateLimitRequest([]Descriptor{{"koala.receipt", receipt}})
	r.Descriptors[0].HitsAddend = wrapperspb.UInt64(2)
	return r
}
