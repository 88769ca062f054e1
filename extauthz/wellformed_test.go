package extauthz_test

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// malformed returns a fault by which Envoy would misinterpret a reply, "" without one.
func malformed(reply *authv3.CheckResponse) string {
	if reply == nil || reply.Status == nil || reply.HttpResponse == nil {
		return "status or oneof is missing, which Envoy takes for permission to pass"
	}
	if _, err := proto.Marshal(reply); err != nil {
		return fmt.Sprintf("the reply cannot be sent: %v", err)
	}
	if reply.DynamicMetadata.GetFields()["verdict"] == nil {
		return "the dynamic metadata has no verdict"
	}
	isOK := reply.Status.Code == int32(codes.OK)
	if ok := reply.GetOkResponse(); ok != nil {
		if !isOK {
			return "an ok_response with a code that denies"
		}
		if fault := malformedHeaders(ok.Headers); fault != "" {
			return fault
		}
		return malformedHeaders(ok.ResponseHeadersToAdd)
	}
	if isOK {
		return "the code OK, by which Envoy allows a denial"
	}
	denied := reply.GetDeniedResponse()
	if denied == nil {
		denied = reply.GetErrorResponse()
	}
	if denied == nil {
		return "an empty oneof"
	}
	if s := denied.GetStatus().GetCode(); s < 200 || s > 599 {
		return fmt.Sprintf("the HTTP status is %d", s)
	}
	return malformedHeaders(denied.Headers)
}

func malformedHeaders(list []*corev3.HeaderValueOption) string {
	seen := map[string]bool{}
	for _, o := range list {
		name, value := strings.ToLower(o.GetHeader().GetKey()), o.GetHeader().GetValue()
		switch {
		case seen[name]:
			return "the header " + name + " occurs twice"
		case !httpguts.ValidHeaderFieldName(name):
			return fmt.Sprintf("a header named %q", name)
		case !httpguts.ValidHeaderFieldValue(value) || strings.ContainsAny(value, "\r\n\x00"):
			return fmt.Sprintf("the header %s is %q", name, value)
		case o.GetAppend() != nil: //nolint:staticcheck // Envoy loses headers for which the old field is set.
			return "the header " + name + " has `append` set"
		case o.AppendAction != corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD:
			return "the header " + name + " does not overwrite"
		}
		seen[name] = true
	}
	return ""
}
