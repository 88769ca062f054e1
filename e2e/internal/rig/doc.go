// Package rig is what the tests of gateways share: the fixture of a test, the samples, the
// facts that all gateways over HTTP have in common, raw requests, and the service itself.
package rig
