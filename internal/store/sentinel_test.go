package store_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/storetest"
)

// watched is a master, its replicas and the Sentinels that watch them.
type watched struct {
	master    *storetest.Node
	replicas  []*storetest.Node
	sentinels []*storetest.Node
}

// url is what a store is told of the Sentinels.
func (w *watched) url() string {
	hosts := make([]string, len(w.sentinels))
	for i, s := range w.sentinels {
		hosts[i] = s.Address
	}
	return "redis-sentinel://" + strings.Join(hosts, ",") + "/koala"
}

// startSentinels starts all of it, and waits until the Sentinels know each
// other and the replicas.
func startSentinels(t *testing.T, sentinels, replicas int, password string) *watched {
	t.Helper()
	client := redis.Options{Password: password}
	auth := []string{}
	if password != "" {
		auth = []string{"--requirepass", password, "--masterauth", password}
	}
	w := &watched{master: storetest.StartNode(t, client, auth...)}
	for range replicas {
		args := append([]string{"--replicaof", "127.0.0.1", w.master.Port(), "--repl-diskless-sync-delay", "0"}, auth...)
		w.replicas = append(w.replicas, storetest.StartNode(t, client, args...))
	}
	for range sentinels {
		n := storetest.NewNode(t)
		lines := []string{
			fmt.Sprintf("sentinel monitor koala 127.0.0.1 %s %d", w.master.Port(), sentinels/2+1),
			"sentinel down-after-milliseconds koala 500",
			"sentinel failover-timeout koala 2000",
		}
		if password != "" {
			lines = append(lines, "sentinel auth-pass koala "+password, "requirepass "+password)
		}
		n.StartSentinel(client, lines...)
		w.sentinels = append(w.sentinels, n)
	}
	for _, s := range w.sentinels {
		storetest.Eventually(t, func() error { return knows(s, sentinels-1, replicas) })
	}
	return w
}

// knows tells what a Sentinel does not know yet.
func knows(s *storetest.Node, others, replicas int) error {
	client := s.Client()
	defer client.Close()
	state, err := client.Do(context.Background(), "SENTINEL", "MASTER", "koala").Result()
	if err != nil {
		return err
	}
	fields, ok := state.(map[any]any)
	if !ok {
		return errors.New("a master is no map")
	}
	for name, want := range map[string]int{"num-other-sentinels": others, "num-slaves": replicas} {
		if got := fmt.Sprint(fields[name]); got != strconv.Itoa(want) {
			return fmt.Errorf("%s is %s, want %d", name, got, want)
		}
	}
	return nil
}
