package exceptions_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// A program that can write to Redis adds exceptions and bans, without a signature and with one of
// another key; with a key none of them is in force.
func TestWriterAddsExceptions(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	server := storetest.StartServer(t)
	open := share(t, server, 1)[0]
	signed := share(t, server, 1, func(o *exceptions.Options) { o.PublicKey = public })[0]
	add := func(key ed25519.PrivateKey, x exceptions.Exception) {
		t.Helper()
		prepared, err := open.Prepare(t.Context(), []exceptions.Exception{x})
		if err != nil {
			t.Fatal(err)
		}
		if key != nil {
			prepared[0].Sign(key, "koala")
		}
		if _, err := open.Add(t.Context(), prepared); err != nil {
			t.Fatal(err)
		}
	}
	ban := exceptions.Exception{Identity: map[string]string{"uid": "victim"}, What: exceptions.Ban, Until: time.Now().Add(time.Hour)}
	add(nil, exception(1, "mallory", exceptions.Allow))
	add(other, exception(2, "mallory", exceptions.Allow))
	add(nil, ban)
	add(private, exception(1, "ann", exceptions.Allow))
	await(t, open, 4)
	if list := await(t, signed, 1); list[0].Identity["uid"] != "ann" {
		t.Errorf("%+v is in force; want the one that the publisher signed", list)
	}
}

// A program that can write to Redis removes exceptions and restores removed ones. With a key
// it cannot change or add any.
func TestWriterOfExceptions(t *testing.T) {
	for _, isSigned := range []bool{false, true} {
		t.Run(fmt.Sprintf("signed %v", isSigned), func(t *testing.T) {
			server := storetest.StartServer(t)
			client := server.Client()
			defer client.Close()
			public, private, err := ed25519.GenerateKey(nil)
			if err != nil {
				t.Fatal(err)
			}
			o := exceptions.Options{Redis: client, Prefix: "koala", Logger: slog.New(slog.DiscardHandler)}
			if isSigned {
				o.PublicKey = public
			}
			k := exceptions.New(o)
			k.Use(parseRules(t, ruleText))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); k.Run(ctx) }()
			defer func() { cancel(); <-ended }()
			prepared, err := k.Prepare(t.Context(), []exceptions.Exception{exception(1, "ann", exceptions.Count), exception(2, "ann", exceptions.Allow)})
			if err != nil {
				t.Fatal(err)
			}
			for i := range prepared {
				prepared[i].Sign(private, "koala")
			}
			if _, err := k.Add(t.Context(), prepared); err != nil {
				t.Fatal(err)
			}
			const book, version = "koala:{exceptions}:book", "koala:{exceptions}:version"
			all, err := client.HGetAll(t.Context(), book).Result()
			if err != nil || len(all) != 2 {
				t.Fatalf("%v, %v", all, err)
			}
			write := func(name string, change func(place, text string) string) {
				t.Helper()
				for place, text := range all {
					if text = change(place, text); text == "" {
						client.HDel(t.Context(), book, place)
					} else {
						client.HSet(t.Context(), book, place, text)
					}
				}
				client.Set(t.Context(), version, name, 0)
			}
			write("removed", func(string, string) string { return "" })
			await(t, k, 0)
			write("restored", func(_, text string) string { return text })
			await(t, k, 2)
			write("removed again", func(string, string) string { return "" })
			await(t, k, 0)
			write("changed", func(_, text string) string { return strings.Replace(text, `"count":9`, `"count":9000`, 1) })
			want := 2
			if isSigned {
				want = 1 // the one that did not change
			}
			for _, x := range await(t, k, want) {
				if isSigned && x.What == exceptions.Count {
					t.Errorf("%+v has a signature of another text", x)
				}
			}
		})
	}
}
