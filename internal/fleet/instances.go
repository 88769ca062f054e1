package fleet

import (
	"context"
	"encoding/json"
	"time"
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
	Live      bool              `json:"-"`
}

// Instances returns the instances that wrote a heartbeat within the last minute.
func (r *Records) Instances(ctx context.Context) ([]Instance, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	reply, err := listInstances().Run(ctx, r.client, r.keys.all(), r.keys.arguments()...).StringSlice()
	if err != nil {
		return nil, unavailable(err)
	}
	return instancesOf(reply), nil
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
		one.ID = reply[0]
		if one.Live = age <= liveTime; !one.Live {
			one.State = "gone"
		}
		list = append(list, one)
	}
	return list
}
