package environ

import "time"

// The largest values of koalagate's settings for connections.
const (
	maxAge   = 24 * time.Hour
	maxGrace = 10 * time.Minute
)

// Ignored returns the variables that are set and have no effect, each with the reason,
// for the log.
func (s *Settings) Ignored(environ []string) []string {
	var notes []string
	if s.Redis.PerSecond {
		notes = append(notes, "REDIS_PERSECOND: limits of unit SECOND count in the Redis of REDIS_URL, like all others")
	}
	if s.MaxConnectionAgeGrace > maxGrace && s.set["GRPC_MAX_CONNECTION_AGE_GRACE"] {
		notes = append(notes, "GRPC_MAX_CONNECTION_AGE_GRACE: calls of a closing connection end after "+maxGrace.String())
	}
	for _, entry := range environ {
		for name, reason := range ignored {
			if len(entry) > len(name) && entry[:len(name)] == name && entry[len(name)] == '=' {
				notes = append(notes, name+": "+reason)
			}
		}
	}
	return notes
}

// ignored are the variables that koalagate does not need, with the reason.
var ignored = map[string]string{
	"LOCAL_CACHE_SIZE_IN_BYTES":     "koalagate remembers refusals by itself; see redis_refusals",
	"REDIS_PIPELINE_WINDOW":         "koalagate sends concurrent calls together by itself; see redis_batching",
	"REDIS_POOL_SIZE":               "koalagate opens the connections that it needs",
	"REDIS_POOL_ON_EMPTY_BEHAVIOR":  "koalagate opens the connections that it needs",
	"REDIS_TIMEOUT":                 "koalagate counts in process if Redis takes longer than redis_budget",
	"EXPIRATION_JITTER_MAX_SECONDS": "counters expire with their windows",
	"USE_DOG_STATSD":                "koalagate writes plain statsd; set USE_STATSD=true",
	"TRACING_ENABLED":               "koalagate exports spans with the variables of OpenTelemetry; see OTEL_EXPORTER_OTLP_ENDPOINT",
}
