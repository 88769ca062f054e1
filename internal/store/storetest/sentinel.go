package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// Sentinels is a master, its replicas and the Sentinels that watch them.
type Sentinels struct {
	Master    *Node
	Replicas  []*Node
	Sentinels []*Node
}

// URL returns the URL for a store.
func (w *Sentinels) URL() string {
	hosts := make([]string, len(w.Sentinels))
	for i, s := range w.Sentinels {
		hosts[i] = s.Address
	}
	return "redis-sentinel://" + strings.Join(hosts, ",") + "/koala"
}

// StartSentinels starts a master, replicas and Sentinels, and waits until the
// Sentinels know each other and the replicas.
func StartSentinels(t testing.TB, sentinels, replicas int, password string) *Sentinels {
	t.Helper()
	client := goredis.Options{Password: password}
	auth := []string{}
	if password != "" {
		auth = []string{"--requirepass", password, "--masterauth", password}
	}
	w := &Sentinels{Master: StartNode(t, client, auth...)}
	for range replicas {
		args := append([]string{"--replicaof", "127.0.0.1", w.Master.Port(), "--repl-diskless-sync-delay", "0"}, auth...)
		w.Replicas = append(w.Replicas, StartNode(t, client, args...))
	}
	for range sentinels {
		n := NewNode(t)
		lines := []string{
			fmt.Sprintf("sentinel monitor koala 127.0.0.1 %s %d", w.Master.Port(), sentinels/2+1),
			"sentinel down-after-milliseconds koala 500",
			"sentinel failover-timeout koala 2000",
		}
		if password != "" {
			lines = append(lines, "sentinel auth-pass koala "+password, "requirepass "+password)
		}
		n.StartSentinel(client, lines...)
		w.Sentinels = append(w.Sentinels, n)
	}
	for _, s := range w.Sentinels {
		Eventually(t, func() error { return knows(s, sentinels-1, replicas) })
	}
	return w
}

// knows returns an error if a Sentinel does not yet know the others and the
// replicas.
func knows(s *Node, others, replicas int) error {
	client := s.Client()
	defer client.Close()
	state, err := client.Do(context.Background(), "SENTINEL", "MASTER", "koala").Result()
	if err != nil {
		return err
	}
	fields, ok := state.(map[any]any)
	if !ok {
		return errors.New("unexpected reply to SENTINEL MASTER")
	}
	for name, want := range map[string]int{"num-other-sentinels": others, "num-slaves": replicas} {
		if got := fmt.Sprint(fields[name]); got != strconv.Itoa(want) {
			return fmt.Errorf("%s is %s, want %d", name, got, want)
		}
	}
	return nil
}
