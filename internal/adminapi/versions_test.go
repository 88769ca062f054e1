package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/rules"
)

// newMember starts an instance with published rules on a Redis of its own.
func newMember(t *testing.T) *fleet.Member {
	t.Helper()
	return newMemberWith(t, func(*fleet.Options) {}, func(*fleet.MemberOptions) {})
}

// newMemberWith is newMember with other options.
func newMemberWith(t *testing.T, options func(*fleet.Options), of func(*fleet.MemberOptions)) *fleet.Member {
	t.Helper()
	o := fleet.Options{
		Redis: redisconn.Options{URL: storetest.StartServer(t).URL()}, Prefix: "api", MaxVersionBytes: 1 << 20, Keep: 50,
	}
	options(&o)
	records, err := fleet.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	member := fleet.MemberOptions{Records: records, Logger: slog.New(slog.DiscardHandler)}
	of(&member)
	m := fleet.NewMember(member)
	m.First(t.Context())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.Run(ctx, func(*rules.Set) {})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = records.Close()
	})
	storetest.Eventually(t, func() error {
		if list, err := records.Instances(t.Context()); err != nil || len(list) == 0 {
			return fmt.Errorf("%d instances, %w", len(list), err)
		}
		return nil
	})
	return m
}

// All paths of published rules answer as they are described.
func TestPublishedAnswersAreDescribed(t *testing.T) {
	doc := loadDescription(t)
	member := newMember(t)
	s := newStage(t, func(o *Options) { o.Member = member })
	blob := fleet.BlobOf([]byte(ruleFile))
	manifest := func(number, before uint64) string {
		m := &fleet.Manifest{Prefix: "api", Number: number, Before: before, Author: "ann", Hash: "h", Rules: 3, Files: []fleet.File{{Name: "rules.conf", Blob: blob}}}
		text, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		body, _ := json.Marshal(NewVersion{Manifest: string(text), TimeoutMS: 60_000})
		return string(body)
	}
	answered := make(map[string]bool)
	ask := func(route, line, body string, status int, want string) {
		t.Helper()
		w := s.ask(line, body, "Authorization", "Bearer "+changeToken, AuthorHeader, "eve@desk")
		method, path, _ := strings.Cut(route, " ")
		validate(t, doc, method, path, w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
		if w.Code != status || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s %.100s: %d %s; want %d and %q", line, body, w.Code, w.Body, status, want)
		}
		answered[route] = answered[route] || w.Code == http.StatusOK
	}
	const dismiss = "DELETE instances/{id}"
	killed := &fleet.Heartbeat{ID: "killed", Text: []byte(`{"host":"edge","pid":7}`)}
	if _, err := member.Records().Beat(t.Context(), killed); err != nil {
		t.Fatal(err)
	}
	ask(dismiss, "DELETE instances/killed", "", 409, "is not gone")
	ask(dismiss, "DELETE instances/nobody", "", 404, "no instance with this ID")
	contents, _ := json.Marshal(Missing{Contents: []fleet.Blob{blob}})
	version := "GET versions/{number}"
	ask("GET fleet", "GET fleet", "", 200, `"in_force": 0`)
	ask("GET instances", "GET instances", "", 200, `"state": "not_ready"`)
	ask(version, "GET versions/active", "", 422, "no rules yet")
	ask("POST versions", "POST versions", manifest(1, 0), 422, "is not in Redis")
	ask("POST contents/missing", "POST contents/missing", string(contents), 200, blob.Sum)
	ask("PUT contents/{hash}", "PUT contents/"+strings.Repeat("0", 64), ruleFile, 422, "another hash")
	ask("PUT contents/{hash}", "PUT contents/"+blob.Sum, ruleFile, 200, blob.Sum)
	ask("POST contents/missing", "POST contents/missing", string(contents), 200, `"contents": []`)
	ask("POST versions", "POST versions", `{"manifest":"{}","timeout_ms":60000}`, 422, "format")
	ask("POST versions", "POST versions", manifest(2, 1), 409, "no version is in force")
	ask("POST versions", "POST versions", manifest(1, 0), 200, `"version": 1`)
	storetest.Eventually(t, func() error {
		if a := member.Active(); a == nil || a.Number != 1 {
			return errors.New("version 1 is not active")
		}
		return nil
	})
	ask("GET proposals/{number}", "GET proposals/1", "", 200, `"state": "in_force"`)
	ask("GET proposals/{number}", "GET proposals/x", "", 400, "not the number")
	ask("POST proposals/{number}", "POST proposals/1", `{"signature":"publish x"}`, 422, `want \"in-force\"`)
	ask("POST proposals/{number}", "POST proposals/9", `{"signature":"in-force x"}`, 422, "no manifest")
	ask("POST proposals/{number}", "POST proposals/1", `{"signature":"in-force x"}`, 200, `"state": "in_force"`) // it does not wait
	ask("POST versions", "POST versions", manifest(2, 0), 409, "version 1 came into force meanwhile")
	ask("GET versions", "GET versions", "", 200, `"in_force": true`)
	ask(version, "GET versions/1", "", 200, "[count]")
	ask(version, "GET versions/active", "", 200, `"before": 0`)
	ask(version, "GET versions/7", "", 422, "is not in Redis")
	ask("GET versions/{number}/contents/{hash}", "GET versions/1/contents/"+blob.Sum, "", 200, ruleFile)
	ask("GET versions/{number}/contents/{hash}", "GET versions/1/contents/"+strings.Repeat("0", 64), "", 404, "no content with this hash")
	ask("GET versions/{number}/contents/{hash}", "GET versions/x/contents/"+blob.Sum, "", 400, "not the number")
	ask("GET differences/{from}/{to}", "GET differences/1/1", "", 200, `"added": 0`)
	ask("GET differences/{from}/{to}", "GET differences/1/7", "", 422, "is not in Redis")
	storetest.Eventually(t, func() error {
		if w := s.ask("GET instances", ""); !strings.Contains(w.Body.String(), `"state": "gone"`) {
			return fmt.Errorf("none is gone: %s", w.Body)
		}
		return nil
	})
	ask(dismiss, "DELETE instances/killed", "", 200, `"pid": 7`)
	ask("GET audit", "GET audit", "", 200, `"action": "instance dismiss"`)
	for _, one := range published {
		if name := one.method + " " + one.path; !answered[name] {
			t.Errorf("%s was not answered with 200", name)
		}
	}
	if w := s.ask("POST versions", manifest(3, 1)); w.Code != http.StatusUnauthorized {
		t.Errorf("a change without a token: %d %s", w.Code, w.Body)
	}
	if log := s.log.String(); !strings.Contains(log, "publish") || !strings.Contains(log, "eve@desk") {
		t.Errorf("the log does not have the change:\n%s", log)
	}
}

// Contents that no version can have are refused with 400, and a version that names them
// with 422: no length that callers send fails the instance.
func TestImpossibleContentsAreRefused(t *testing.T) {
	member := newMember(t)
	s := newStage(t, func(o *Options) { o.Member = member })
	good := fleet.BlobOf([]byte(ruleFile))
	for name, blobs := range map[string][]fleet.Blob{
		"a size of -1":            {{Sum: good.Sum, Size: -1}},
		"the smallest size":       {{Sum: good.Sum, Size: math.MinInt64}},
		"the largest size":        {{Sum: good.Sum, Size: math.MaxInt64}},
		"more than a version has": {{Sum: good.Sum, Size: 1<<20 + 1}},
		"two sizes":               {good, {Sum: good.Sum, Size: -1}},
		"sizes with a large sum":  {{Sum: good.Sum, Size: 1 << 20}, {Sum: strings.Repeat("0", 64), Size: math.MaxInt64}},
		"no hash":                 {{Size: 1}},
		"another key":             {{Sum: "../head", Size: 1}},
		"a hash in upper case":    {{Sum: strings.ToUpper(good.Sum), Size: good.Size}},
	} {
		body, _ := json.Marshal(Missing{Contents: blobs})
		if w := s.ask("POST contents/missing", string(body), "Authorization", "Bearer "+changeToken); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s; want 400", name, w.Code, w.Body)
		}
		m := &fleet.Manifest{Prefix: "api", Number: 1, Author: "ann", Hash: "h", Rules: 3}
		for _, b := range blobs {
			m.Files = append(m.Files, fleet.File{Name: "rules.conf", Blob: b})
		}
		text, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		body, _ = json.Marshal(NewVersion{Manifest: string(text), TimeoutMS: 60_000})
		if w := s.ask("POST versions", string(body), "Authorization", "Bearer "+changeToken); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s, as a version: %d %s; want 422", name, w.Code, w.Body)
		}
	}
	list := make([]fleet.Blob, 10_001)
	for i := range list {
		list[i].Sum = fmt.Sprintf("%064x", i)
	}
	many, _ := json.Marshal(Missing{Contents: list})
	if w := s.ask("POST contents/missing", string(many), "Authorization", "Bearer "+changeToken); w.Code != http.StatusBadRequest {
		t.Errorf("10,001 contents: %d; want 400", w.Code)
	}
}

// An instance with rules of files says so.
func TestNoPublishedRules(t *testing.T) {
	s := newStage(t, nil)
	for _, one := range published {
		path := strings.NewReplacer("{number}", "1", "{from}", "1", "{to}", "1", "{hash}", "x").Replace(one.path)
		if w := s.ask(one.method+" "+path, "", "Authorization", "Bearer "+changeToken); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "from files") {
			t.Errorf("%s %s: %d %s", one.method, path, w.Code, w.Body)
		}
	}
}
