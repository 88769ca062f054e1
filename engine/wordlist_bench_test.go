package engine_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// BenchmarkDecideByWordLists decides calls by rules that look a value up in word lists of
// a million entries, each time another value, so that its entry is not in a cache. With 0
// lists the rule compares the value with one word.
func BenchmarkDecideByWordLists(b *testing.B) {
	const entries, values = 1_000_000, 1 << 17
	for _, kind := range []string{"7%d", "user%08d@example.com"} {
		for _, lists := range []int{0, 1, 10} {
			b.Run(fmt.Sprintf("%d lists of %s", lists, fmt.Sprintf(kind, 1)), func(b *testing.B) {
				e := engine.New(wordListRules(b, lists, entries, kind))
				random := rand.New(rand.NewPCG(1, 2))
				params := make([]rules.Params, values)
				for i := range params {
					params[i].Set("uid", fmt.Sprintf(kind, entries+random.IntN(entries))) // in no list
				}
				call := &engine.Call{Op: engine.Take, Inputs: make([]engine.Input, 1), Scratch: new(engine.Scratch)}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					call.Inputs[0].Params = &params[i%values]
					if _, err := e.Decide(b.Context(), call); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// wordListRules returns a rule for each list; with 0 lists a rule for one word.
func wordListRules(b *testing.B, lists, entries int, kind string) *rules.Set {
	b.Helper()
	var dicts, text strings.Builder
	for i := range lists {
		fmt.Fprintf(&dicts, "list%d : %d\n", i, i)
		fmt.Fprintf(&text, "rule : [direct] [uid @ list%d] [] [result=2; return=%d]\n", i, i+1)
	}
	if lists == 0 {
		text.WriteString("rule : [direct] [uid=nobody] [] [result=2; return=1]\n")
	}
	source := "[dicts]\n" + dicts.String() + "[rules]\n" + text.String() + "[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n[end]\n"
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(source)}}, rules.Options{
		OpenDict: func(_, path string) (*rules.Dict, error) {
			in, out := io.Pipe()
			go func() {
				for n := range entries {
					fmt.Fprintf(out, kind+"\n", n)
				}
				out.Close()
			}()
			return rules.ParseDict(path, in)
		},
	})
	if set == nil {
		b.Fatal(findings)
	}
	return set
}
