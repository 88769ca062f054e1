// Package page drives the page for operators in a real Chromium, as a person would: with
// mouse and keyboard, at instances that share a real Redis. It is a separate module, so
// that the driver of the browser is not a dependency of the service.
//
// Whatever the browser reports fails a test: errors and warnings in its console, violations
// of the content security policy, requests to other hosts. Each test keeps pictures in
// out/page of the repository, also of the page at which it failed.
package page
