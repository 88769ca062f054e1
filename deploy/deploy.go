// Package deploy has the configurations of Caddy, HAProxy and Traefik that ship with
// koalagate, for examples/gateway.conf. Those of nginx and Envoy are in packages nginx and
// envoy.
package deploy

import _ "embed" // for the configurations

var (
	//go:embed caddy/Caddyfile
	caddy string
	//go:embed haproxy/haproxy.cfg
	haproxy string
	//go:embed haproxy/koala.lua
	haproxyAction string
	//go:embed traefik/traefik.yaml
	traefik string
)

// Caddy returns the configuration of Caddy.
func Caddy() string { return caddy }

// HAProxy returns the configuration of HAProxy, which loads HAProxyAction.
func HAProxy() string { return haproxy }

// HAProxyAction returns HAProxy's action lua.koala.
func HAProxyAction() string { return haproxyAction }

// Traefik returns the dynamic configuration of Traefik.
func Traefik() string { return traefik }
