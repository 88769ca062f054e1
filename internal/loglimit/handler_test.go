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

func TestHandlerDropsLinesBeyondTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		dropped := 0
		logger := slog.New(loglimit.NewHandler(slog.NewTextHandler(&text, nil), 5, func() { dropped++ }))
		derived := logger.With("door", "koala").WithGroup("g")
		count := func(message string) int { return strings.Count(text.String(), `msg=`+message) }
		for range 100 {
			logger.Info("flood")
			derived.Info("flood", "n", 1)
			logger.Debug("invisible") // does not count
		}
		if got := count("flood"); got != 50 || dropped != 150 {
			t.Errorf("%d lines logged and %d dropped of 200; want the 50 of ten seconds logged", got, dropped)
		}
		time.Sleep(2 * time.Second)
		for range 20 {
			derived.Info("later")
		}
		if got := count("later"); got != 10 || dropped != 160 {
			t.Errorf("%d of 20 lines logged after two seconds, %d dropped in all; want 10 and 160", got, dropped)
		}
		if want := `level=WARN msg="log lines were dropped" lines=150` + "\n"; strings.Count(text.String(), want) != 1 {
			t.Errorf("want one line %q in\n%s", want, text.String())
		}
		time.Sleep(time.Hour)
		for range 60 {
			logger.Info("burst")
		}
		if got := count("burst"); got != 50 {
			t.Errorf("%d of 60 lines logged after an hour; want 50", got)
		}
	})
}
