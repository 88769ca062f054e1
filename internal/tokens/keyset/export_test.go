package keyset

import "net/http"

// Watch calls f with each request before it is sent, redirects included.
func (k *Keeper) Watch(f func(*http.Request)) { k.client.Transport = watched{k.client.Transport, f} }

type watched struct {
	http.RoundTripper
	f func(*http.Request)
}

// RoundTrip implements http.RoundTripper.
func (w watched) RoundTrip(r *http.Request) (*http.Response, error) {
	w.f(r)
	return w.RoundTripper.RoundTrip(r)
}
