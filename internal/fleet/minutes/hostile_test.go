package minutes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/fleet/minutes"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// What others have written is read within bounds: documents and names that are too long are
// left out, and of too many the rest.
func TestForgedDocuments(t *testing.T) {
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	minute := minutes.Of(time.Now())
	key := fmt.Sprintf("koala:{minutes}:traffic:%d", minute)
	pipe := client.Pipeline()
	for i := range 3000 {
		pipe.HSet(t.Context(), key, fmt.Sprintf("%d%s", i, strings.Repeat("n", 60_000*(i%2))), "{}")
	}
	pipe.HSet(t.Context(), key, "long", strings.Repeat("x", minutes.MaxDocument+1))
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := minutes.New(client, "koala").Read(t.Context(), "traffic", minute, minute)
	if err != nil || len(list) != 1000 {
		t.Fatalf("%d documents, %v; want 1000", len(list), err)
	}
	seen := make(map[string]bool)
	for _, one := range list {
		if len(one.Instance) > 64 || len(one.Text) > minutes.MaxDocument || seen[one.Instance] {
			t.Fatalf("%.100q has %d bytes", one.Instance, len(one.Text))
		}
		seen[one.Instance] = true
	}
}
