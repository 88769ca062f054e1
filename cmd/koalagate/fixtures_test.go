package main

import (
	"testing"

	"github.com/koalagate/koalagate/internal/store/storetest"
)

// oneRule is a rule file with a limit of 1000 hits per user and day.
const oneRule = `[rules]
rule : [leak] [uid=+] [time=86400; count=1000;] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

func keysOf(t *testing.T, server *storetest.Server) []string {
	t.Helper()
	client := server.Client()
	defer client.Close()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
