package loglimit_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/internal/loglimit"
)

func TestWarningsAreLoggedOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(bytes.Buffer)
		w := loglimit.Warner{Logger: slog.New(slog.NewTextHandler(log, nil))}
		for range 25 {
			w.Warn("it hurts", "key", "a\nb")
			time.Sleep(time.Second)
		}
		if n := strings.Count(log.String(), "\n"); n != 3 || strings.Count(log.String(), "since_last_line=9") != 2 {
			t.Errorf("%d lines for 25 s:\n%s", n, log)
		}
	})
}
