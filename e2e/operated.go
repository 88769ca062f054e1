package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Operated is an instance with one processor and many published rules, whose operators ask the
// largest and worst questions.
type Operated struct {
	*Koalagate
	Binary string
	Files  []string // rule files of two versions
}

// Operated starts an instance with counters in Redis, n exceptions, and versions of n rules, the
// first of which is the text first, followed by return=1.
func (s *Stage) Operated(ctx context.Context, binary, dir, redis, first string, n int) (*Operated, error) {
	o := &Operated{Binary: binary}
	for count := 8; count <= 9; count++ {
		var text strings.Builder
		text.WriteString("[params]\nuid : header X-User-Id\n[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n[rules]\n")
		text.WriteString(first + " [result=2; return=1]\n")
		for i := 2; i < n; i++ {
			fmt.Fprintf(&text, "rule : [count] [uid=+; kind=%d] [time=3600; count=%d] [result=2; return=%d]\n", i, count, i)
		}
		file := filepath.Join(dir, fmt.Sprintf("operated-%d.conf", count))
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			return nil, err
		}
		o.Files = append(o.Files, file)
	}
	k, err := s.Serve(binary, []string{"GOMAXPROCS=1", "KOALAGATE_DECISION_LOG=" + filepath.Join(dir, "decisions.jsonl")}, "--redis", redis, "--rules", "redis:")
	if err != nil {
		return nil, err
	}
	o.Koalagate = k
	if err := k.Listens(); err != nil {
		return nil, err
	}
	for i := range 3 { // the instance holds the last one, and reads the others
		if err := o.publish(ctx, o.Files[i%2]); err != nil {
			return nil, err
		}
	}
	if err := eventually(k.Program, k.ready); err != nil {
		return nil, err
	}
	return o, o.except(ctx, n)
}

// except adds n exceptions, of users that nobody else is.
func (o *Operated) except(ctx context.Context, n int) error {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"rule":1,"identity":{"uid":"abcdefghijklmno-%d"},"what":"allow"}`, i)
	}
	status, err := o.Koalagate.Ask(ctx, &AdminQuestion{
		Method: http.MethodPost, Path: api + "exceptions", Body: `{"for_ms":3600000,"exceptions":[` + strings.Join(list, ",") + `]}`, NeedsToken: true,
	})
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("adding exceptions: %d", status)
	}
	return err
}

// publish publishes a version. It fails if somebody else is publishing.
func (o *Operated) publish(ctx context.Context, file string) error {
	out, err := exec.CommandContext(ctx, o.Binary, "publish", file, "--admin", o.Admin).CombinedOutput()
	if err != nil {
		return fmt.Errorf("publish: %w\n%s", err, out)
	}
	return nil
}

// Questions returns AdminQuestions, and those about published versions.
func (o *Operated) Questions() []AdminQuestion {
	list := AdminQuestions()
	for _, path := range []string{"versions", "versions/1", "differences/1/2"} {
		list = append(list, apiQuestion(path))
	}
	return append(list, AdminQuestion{Name: "publishing"})
}

// Ask asks a question as Koalagate.Ask does, or publishes, for which the status is 200.
func (o *Operated) Ask(ctx context.Context, q *AdminQuestion) (int, error) {
	if q.Method != "" {
		return o.Koalagate.Ask(ctx, q)
	}
	var failed error
	for _, file := range o.Files {
		if err := o.publish(ctx, file); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	return http.StatusOK, failed
}
