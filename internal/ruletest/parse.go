package ruletest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/yamldoc"
)

// maxTimes is the maximum of a step's times.
const maxTimes = 1_000_000

// operations are the operations of steps by their names.
var operations = map[string]engine.Op{
	engine.Take.String(): engine.Take, engine.Browse.String(): engine.Browse,
	engine.Update.String(): engine.Update, engine.Refund.String(): engine.Refund,
}

// Parse reads a case file. Errors name the path and the line. Paths in the file are
// relative to its folder.
func Parse(path string, text []byte) (*File, error) {
	r := &fileReader{reader: reader{path}, file: &File{Path: path}}
	var document yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	switch err := d.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: the file is empty", path)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: want one YAML document, a case file that names its rule files", path)
	}
	if err := yamldoc.Check(&document, len(text)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := r.read(document.Content[0]); err != nil {
		return nil, err
	}
	return r.file, nil
}

// fileReader reads one file.
type fileReader struct {
	reader
	file     *File
	start    string          // of cases that state none
	defaults explain.Options // of requests that state none
}

func (r *fileReader) read(n *yaml.Node) error {
	f := r.file
	r.start = defaultStart
	var cases *yaml.Node
	if err := r.object(n, "a case file", map[string]field{
		"rules": r.texts(&f.Rules, "paths"), "dict_root": r.text(&f.DictRoot), "timezone": r.text(&f.Timezone),
		"start": r.text(&r.start), "door": r.door(&r.defaults.Door), "peer": r.text(&r.defaults.Peer),
		"cases": func(n *yaml.Node) error { cases = n; return nil },
	}); err != nil {
		return err
	}
	switch {
	case len(f.Rules) == 0:
		return r.errorf(n, "rules is missing; name the rule files under test")
	case cases == nil:
		return r.errorf(n, "cases is missing")
	}
	for i, path := range f.Rules {
		f.Rules[i] = r.relative(path)
	}
	if f.DictRoot != "" {
		f.DictRoot = r.relative(f.DictRoot)
	}
	if err := r.list(cases, "cases", r.readCase); err != nil {
		return err
	}
	if len(f.Cases) == 0 {
		return r.errorf(cases, "there are no cases")
	}
	return nil
}

func (r *fileReader) relative(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(r.path), path)
}

func (r *fileReader) readCase(n *yaml.Node) error {
	c := Case{Line: n.Line, Start: r.start}
	var steps *yaml.Node
	if err := r.object(n, "a case", map[string]field{
		"name": r.text(&c.Name), "start": r.text(&c.Start),
		"steps": func(n *yaml.Node) error { steps = n; return nil },
	}); err != nil {
		return err
	}
	switch {
	case c.Name == "":
		return r.errorf(n, "the case has no name")
	case slices.ContainsFunc(r.file.Cases, func(other Case) bool { return other.Name == c.Name }):
		return r.errorf(n, "another case has the name %q", c.Name)
	case steps == nil:
		return r.errorf(n, "the case %q has no steps", c.Name)
	}
	if err := r.list(steps, "steps", func(n *yaml.Node) error {
		s, err := r.readStep(n)
		c.Steps = append(c.Steps, s)
		return err
	}); err != nil {
		return err
	}
	if len(c.Steps) == 0 {
		return r.errorf(steps, "the case %q has no steps", c.Name)
	}
	r.file.Cases = append(r.file.Cases, c)
	return nil
}

// readStep reads a step.
func (r *fileReader) readStep(n *yaml.Node) (Step, error) {
	s := Step{Line: n.Line, Op: engine.Take}
	times, hits := int64(1), int64(1)
	var request, op, after string
	door, peer := "", ""
	a := &s.Ask
	a.Headers = http.Header{}
	err := r.object(n, "a step", map[string]field{
		"request": r.text(&request), "headers": r.headers(a.Headers), "door": r.door(&door), "peer": r.text(&peer),
		"params": r.params(&a.Params), "metadata": r.metadata(&a.Metadata),
		"principal": r.text(&a.Principal), "sni": r.text(&a.SNI), "token": r.tokens(&s.Tokens),
		"hits": r.number(&hits, 0, engine.MaxHits), "times": r.number(&times, 1, maxTimes), "op": r.text(&op),
		"after": r.text(&after), "at": r.text(&s.At),
		"expect":  func(n *yaml.Node) (err error) { s.Wants, err = r.expectations(n); return err },
		"receipt": r.text(&s.Receipt), "response": r.response(&s.Ending), "used": r.used(&s.Ending),
	})
	if err != nil {
		return s, err
	}
	s.Times, a.Hits, a.NoHits = int(times), uint64(hits), hits == 0
	if err := r.setRequest(n, a, request, door, peer); err != nil {
		return s, err
	}
	if err := r.setOperation(n, &s, op); err != nil {
		return s, err
	}
	if after != "" {
		if s.After, err = time.ParseDuration(after); err != nil || s.After < 0 || s.At != "" {
			return s, r.errorf(n, "invalid after: %q; want a time with a unit such as 30s or 1h30m, and not together with at", after)
		}
	}
	if s.OnReceipt != "" {
		return s, nil
	}
	if _, err := explain.New(s.Ask); err != nil {
		return s, r.errorf(n, "%v", err)
	}
	if len(s.Tokens) > 0 && a.Target == "" {
		return s, r.errorf(n, "a token needs a request; add request: METHOD TARGET")
	}
	if len(s.Wants) == 0 && (s.Op == engine.Take || s.Op == engine.Browse) {
		return s, r.errorf(n, "the step expects nothing; add expect, for example expect: allow")
	}
	return s, nil
}

// setOperation sets the operation of a step, and checks what it says about receipts.
func (r *fileReader) setOperation(n *yaml.Node, s *Step, op string) error {
	if onReceipt[op] != nil {
		s.OnReceipt = op
	} else if op != "" {
		var known bool
		if s.Op, known = operations[op]; !known {
			return r.errorf(n, "unknown op %q; want take, browse, update, refund, settle or renew", op)
		}
	}
	return r.checkReceipt(n, s)
}

// setRequest sets the request of a step, with the defaults of the file.
func (r *fileReader) setRequest(n *yaml.Node, a *explain.Options, request, door, peer string) error {
	a.Door, a.Peer = door, peer
	if request == "" {
		return nil
	}
	words := strings.Fields(request)
	if len(words) != 2 {
		return r.errorf(n, "invalid request %q; want METHOD TARGET, for example GET /api", request)
	}
	a.Method, a.Target = words[0], words[1]
	if a.Door == "" {
		a.Door = r.defaults.Door
	}
	if a.Peer == "" {
		a.Peer = r.defaults.Peer
	}
	return nil
}

func (r *fileReader) door(to *string) field {
	return func(n *yaml.Node) error {
		if err := r.text(to)(n); err != nil {
			return err
		}
		if !slices.Contains(doorname.All(), *to) {
			return r.errorf(n, "unknown door %q; want %s", *to, strings.Join(doorname.All(), ", "))
		}
		return nil
	}
}

func (r *fileReader) headers(to http.Header) field {
	return func(n *yaml.Node) error {
		return r.pairs(n, "headers", func(key, value *yaml.Node) error {
			var values []string
			err := r.texts(&values, "values")(value)
			for _, v := range values {
				to.Add(key.Value, v)
			}
			return err
		})
	}
}

func (r *fileReader) params(to *[]mapping.Entry) field {
	return func(n *yaml.Node) error {
		return r.pairs(n, "params", func(key, value *yaml.Node) error {
			e := mapping.Entry{Key: key.Value}
			err := r.text(&e.Value)(value)
			*to = append(*to, e)
			return err
		})
	}
}

// metadata reads Envoy's dynamic metadata, whose keys are `NAMESPACE PATH`.
func (r *fileReader) metadata(to *explain.Metadata) field {
	return func(n *yaml.Node) error {
		*to = explain.Metadata{}
		return r.pairs(n, "metadata", func(key, value *yaml.Node) error {
			namespace, path, found := strings.Cut(key.Value, " ")
			if !found || namespace == "" || path == "" {
				return r.errorf(key, "invalid metadata %q; want NAMESPACE PATH", key.Value)
			}
			var text string
			err := r.text(&text)(value)
			(*to)[explain.MetadataKey{Namespace: namespace, Path: path}] = text
			return err
		})
	}
}
