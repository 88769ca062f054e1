package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// Instance is an instance of the fleet.
type Instance struct {
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Program string    `json:"program_version"`
	Version uint64    `json:"version"` // of the rules that it decides by; 0 for none
	Hash    string    `json:"hash"`
	Since   time.Time `json:"since"` // when it began to decide by them
	// State is ready, not_ready, or gone after three seconds without a heartbeat.
	State string `json:"state"`
	// Store is memory, redis or degraded.
	Store     string            `json:"store"`
	LastError string            `json:"last_error"`
	Modes     map[string]string `json:"modes"`
	// AgeMS is the time since its last heartbeat in ms.
	AgeMS int64 `json:"age_ms,omitempty"`
	Live  bool  `json:"-"`
}

// The errors of Dismiss about the instance.
var (
	// ErrUnknownInstance reports an instance of which Redis knows nothing.
	ErrUnknownInstance = errors.New("there is no instance with this ID; it may have been dismissed")
	// ErrLiveInstance reports an instance that is not gone.
	ErrLiveInstance = errors.New("the instance is not gone: it wrote a heartbeat within the last three seconds")
)

// Instances returns the instances, the one with the latest heartbeat first. One that ended without
// taking leave is gone; it stays until Dismiss, the 100 latest of them, or until no instance has
// written a heartbeat for seven days.
func (r *Records) Instances(ctx context.Context) ([]Instance, error) {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	reply, err := listInstances().Run(ctx, r.client, r.keys.all(), r.keys.arguments()...).StringSlice()
	if err != nil {
		return nil, unavailable(err)
	}
	return instancesOf(reply), nil
}

// Dismiss forgets an instance that is gone, and returns its last description.
func (r *Records) Dismiss(ctx context.Context, id string) (*Instance, error) {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	reply, err := dismiss().Run(ctx, r.client, r.keys.all(), r.keys.arguments(id)...).StringSlice()
	switch {
	case err != nil:
		return nil, unavailable(err)
	case len(reply) != 2 || reply[0] == "unknown":
		return nil, ErrUnknownInstance
	case reply[0] == "live":
		return nil, ErrLiveInstance
	}
	return &instancesOf([]string{id, strconv.FormatInt(liveTime.Milliseconds()+1, 10), reply[1]})[0], nil
}

// instancesOf reads the reply of instances.lua. Fields of newer programs are ignored.
func instancesOf(reply []string) []Instance {
	list := []Instance{}
	for ; len(reply) >= 3; reply = reply[3:] {
		one := Instance{}
		if json.Unmarshal([]byte(reply[2]), &one) != nil {
			one = Instance{LastError: "its description in Redis is damaged"}
		}
		age := time.Duration(numberOf(reply[1])) * time.Millisecond
		one.ID, one.AgeMS = reply[0], age.Milliseconds()
		if one.Live = age <= liveTime; !one.Live {
			one.State = "gone"
		}
		list = append(list, one)
	}
	return list
}
