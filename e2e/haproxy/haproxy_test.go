package haproxy_test

import (
	"testing"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

func TestHAProxy(t *testing.T) {
	d := &rig.Door{
		First: 161,
		Open:  rig.HAProxyWith(),
		Shut:  rig.HAProxyWith([2]string{"#http-request deny deny_status 503", "http-request deny deny_status 503"}),
		Down:  []int{503},
	}
	d.Run(t)
}
