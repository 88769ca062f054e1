package nginx

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestComplaintsAreLoggedOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := complaints{logger: slog.New(slog.NewTextHandler(&log, nil))}
		for range 25 { // seconds 0 … 24
			c.warn("first", "peer", "10.0.0.1")
			time.Sleep(time.Second)
		}
		c.warn("second", "peer", "10.0.0.1")

		var got []string
		for line := range strings.Lines(log.String()) {
			got = append(got, line[strings.Index(line, "msg="):])
		}
		want := "msg=first peer=10.0.0.1 suppressed=0\n" + // second 0
			"msg=first peer=10.0.0.1 suppressed=9\n" + // 10
			"msg=first peer=10.0.0.1 suppressed=9\n" + // 20
			"msg=second peer=10.0.0.1 suppressed=0\n"
		if strings.Join(got, "") != want {
			t.Errorf("the log has\n%swant\n%s", strings.Join(got, ""), want)
		}
	})
}
