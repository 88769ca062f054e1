package store

// Key is the key of a subject.
func Key(prefix, subject string) string { return string(appendKey(nil, prefix, []byte(subject))) }

// SetSkew makes r believe that Redis's clock is that far ahead, in ms.
func (r *Redis) SetSkew(ms int64) { r.skew.Store(ms) }

// Skew is what r believes.
func (r *Redis) Skew() int64 { return r.skew.Load() }

// Prefix begins r's keys.
func (r *Redis) Prefix() string { return r.prefix }
