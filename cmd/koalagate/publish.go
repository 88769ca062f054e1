package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/findings"
	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/trial"
)

// publishing are the flags of the commands that publish a version.
type publishing struct {
	instance
	note, signKey string
	expect        int64
	quorum        int
	wait          time.Duration
	format        choice
	trial         *adminapi.NewTrial // nil brings the version into force
}

// add adds the flags.
func (b *publishing) add(c *cobra.Command) {
	b.addVersion(c)
	c.Flags().Var(&b.format, "format", "`FORMAT` of the result: text or json (docs/formats.md)")
}

// addVersion adds the flags of a version, without --result.
func (b *publishing) addVersion(c *cobra.Command) {
	b.format = choice{value: "text", among: []string{"text", "json"}}
	b.instance.add(c)
	f := c.Flags()
	f.StringVar(&b.note, "note", "", "`TEXT` that the history keeps: why")
	f.StringVar(&b.author, "author", author(), "`NAME` that the history and the audit trail keep")
	f.Int64Var(&b.expect, "expect", -1, "`VERSION` that must be in force, 0 for none (default: the one that the changes are printed against)")
	f.Lookup("expect").DefValue = "0" // help names the default in words
	f.IntVar(&b.quorum, "quorum", 0, "`NUMBER` of instances that must be ready (default: all)")
	f.DurationVar(&b.wait, "deadline", 30*time.Second, "maximum `DURATION` until the instances are ready")
	f.StringVar(&b.signKey, "sign-key", "", "PEM `FILE` of the Ed25519 key that signs the version, when it is proposed and when all instances are ready")
}

func (p *program) publishCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "publish PATH…",
		Short: "Publish rules to all instances that share a Redis",
		Long: "Check rule files, print what they change, and publish them with their word lists and tables to all\n" +
			"instances with --rules redis:. Each live instance loads the version and reports whether it can apply it.\n" +
			"When all are ready, it comes into force everywhere at one instant; if one refuses, nothing changes,\n" +
			"and its findings are printed.\n\n" +
			"The exit code is 0 when the version is in force, 1 if it was refused, 2 for an invalid command line, and\n" +
			"3 if another version came into force meanwhile.",
		Example: "  koalagate publish /etc/koalagate/rules --note 'limit comments'\n" +
			"  koalagate publish --trial 15m --then enforce --abort-if 'newly-refused>1%' /etc/koalagate/rules\n" +
			"  koalagate publish --sign-key publish.key /etc/koalagate/rules   # for publish_public_key\n" +
			"  koalagate publish --restore   # after Redis was flushed or replaced",
	}
	b := &publishing{instance: instance{installed: p.installed}}
	var files reload.Files
	var tried trialFlags
	restore, again := false, false
	b.add(c)
	tried.add(c)
	addParserFlags(c, &files)
	c.Flags().BoolVar(&restore, "restore", false, "publish the rules of the instance at the admin address again")
	c.Flags().BoolVar(&again, "tried", false, "publish the version of the last trial")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if b.trial, err = tried.options(); err != nil {
			return err
		}
		switch {
		case restore && (again || len(args) > 0), again && len(args) > 0:
			return errors.New("want rule files, --restore or --tried")
		case restore:
			return p.publishAgain(ctx, b, "active", "restored")
		case again:
			return p.publishTried(ctx, b)
		case len(args) == 0:
			return errors.New("no rule files; name them: koalagate publish PATH…")
		}
		files.Paths = args
		return p.publish(ctx, b, files)
	}
	return c
}

func (p *program) rollbackCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "rollback [VERSION]",
		Short: "Publish the content of an earlier version again",
		Long: "Publish the content of an earlier version as a new version. Without VERSION, publish the one before\n" +
			"the version in force. The new version comes into force as with `koalagate publish`.",
		Example: "  koalagate rollback --note 'it refused everybody'",
	}
	b := &publishing{instance: instance{installed: p.installed}}
	b.add(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if len(args) > 1 {
			return fmt.Errorf("unexpected argument %q", args[1])
		}
		if len(args) == 1 {
			if err := checkVersion(args[0]); err != nil {
				return err
			}
			return p.rollback(ctx, b, args[0])
		}
		var state adminapi.Fleet
		if err := b.call(ctx, p.environ, http.MethodGet, "fleet", nil, &state); err != nil {
			return err
		}
		if state.InForce == 0 {
			return failed("no version is in force")
		}
		var current adminapi.VersionDetail
		if err := b.call(ctx, p.environ, http.MethodGet, fmt.Sprintf("versions/%d", state.InForce), nil, &current); err != nil {
			return err
		}
		if current.Before == 0 {
			return failed("there was no version before version %d", state.InForce)
		}
		b.expect = int64(state.InForce)
		return p.rollback(ctx, b, strconv.FormatUint(current.Before, 10))
	}
	return c
}

// publish reads rule files and publishes them.
func (p *program) publish(ctx context.Context, b *publishing, files reload.Files) error {
	var state adminapi.Fleet
	if err := b.call(ctx, p.environ, http.MethodGet, "fleet", nil, &state); err != nil {
		return err
	}
	_, manifest, contents, list, err := fleet.Read(ctx, files, state.MaxVersionBytes)
	if err != nil {
		return failure{err}
	}
	findings.WriteText(p.stderr, list)
	if list.HasErrors() {
		return errReported
	}
	if err := p.checkExpected(ctx, b, &state); err != nil {
		return err
	}
	if err := b.uploadMissing(ctx, p.environ, manifest, contents); err != nil {
		return err
	}
	return p.propose(ctx, b, manifest, &state)
}

// uploadMissing stores the contents of a version that Redis lacks.
func (b *publishing) uploadMissing(ctx context.Context, environ []string, m *fleet.Manifest, contents fleet.Contents) error {
	var missing adminapi.Missing
	if err := b.call(ctx, environ, http.MethodPost, "contents/missing", adminapi.Missing{Contents: m.Blobs()}, &missing); err != nil {
		return err
	}
	for _, blob := range missing.Contents {
		if err := b.upload(ctx, environ, blob, contents[blob.Sum]); err != nil {
			return err
		}
	}
	return nil
}

// upload stores a content. It has more time than --timeout: contents may be large.
func (b *publishing) upload(ctx context.Context, environ []string, blob fleet.Blob, content []byte) error {
	c, err := b.client(environ)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, adminapi.UploadTime+b.timeout)
	defer cancel()
	if err := c.Upload(ctx, "contents/"+blob.Sum, bytes.NewReader(content)); err != nil {
		return failure{err}
	}
	return nil
}

// rollback publishes the content of a version that was in force.
func (p *program) rollback(ctx context.Context, b *publishing, version string) error {
	return p.publishAgain(ctx, b, version, "rollback to version "+version, "", fleet.InForce)
}

// publishAgain publishes the content of a version of the instance, whose signature must be
// for one of the purposes; none accepts all.
func (p *program) publishAgain(ctx context.Context, b *publishing, version, note string, purposes ...fleet.Purpose) error {
	var state adminapi.Fleet
	if err := b.call(ctx, p.environ, http.MethodGet, "fleet", nil, &state); err != nil {
		return err
	}
	var detail adminapi.VersionDetail
	if err := b.call(ctx, p.environ, http.MethodGet, "versions/"+version, nil, &detail); err != nil {
		return err
	}
	if detail.Content == nil {
		return failed("the instance did not send the content of version %s", version)
	}
	if len(purposes) > 0 && !slices.Contains(purposes, detail.Purpose) {
		return failed("version %s was never in force: its signature is for %q", version, detail.Purpose)
	}
	if err := p.checkExpected(ctx, b, &state); err != nil {
		return err
	}
	if b.note == "" {
		b.note = note
	}
	return p.propose(ctx, b, detail.Content, &state)
}

// publishTried publishes the version of the last trial.
func (p *program) publishTried(ctx context.Context, b *publishing) error {
	var last trial.Report
	if err := b.call(ctx, p.environ, http.MethodGet, "trial", nil, &last); err != nil {
		return err
	}
	if last.Version == 0 {
		return failed("the rules on trial are files; publish them: koalagate publish PATH…")
	}
	version := strconv.FormatUint(last.Version, 10)
	return p.publishAgain(ctx, b, version, "version "+version+" after its trial")
}

// checkExpected returns a conflict, and prints what changed, if another version is in
// force than --expect says.
func (p *program) checkExpected(ctx context.Context, b *publishing, state *adminapi.Fleet) error {
	if b.expect < 0 || uint64(b.expect) == state.InForce {
		return nil
	}
	if b.expect > 0 && state.InForce > 0 {
		var d adminapi.Difference
		if err := b.call(ctx, p.environ, http.MethodGet, fmt.Sprintf("differences/%d/%d", b.expect, state.InForce), nil, &d); err == nil && d.Changes != nil {
			display.Printf(p.stderr, "version %d → %d: %s\n", b.expect, state.InForce, d.Changes)
		}
	}
	return conflict{fmt.Errorf("version %d is in force, not %d; nothing was published", state.InForce, b.expect)}
}

// nameTrial prints whose trial the proposed version ends, if one is running.
func (p *program) nameTrial(ctx context.Context, b *publishing) {
	var running trial.Report
	if err := b.call(ctx, p.environ, http.MethodGet, "trial", nil, &running); err != nil || running.Version == 0 || running.State != trial.Running {
		return // whoever proposes reads of other troubles next
	}
	text := fmt.Sprintf("version %d is on trial", running.Version)
	var tried adminapi.VersionDetail
	if err := b.call(ctx, p.environ, http.MethodGet, fmt.Sprintf("versions/%d", running.Version), nil, &tried); err == nil {
		text += ", published by " + display.Value(tried.Author)
		if tried.Note != "" {
			text += ": " + display.Value(tried.Note)
		}
	}
	fmt.Fprintln(p.stderr, text+"; this version ends the trial")
}

// propose signs and proposes a version, and waits until it is in force.
func (p *program) propose(ctx context.Context, b *publishing, m *fleet.Manifest, state *adminapi.Fleet) error {
	next := *m
	next.Prefix, next.Number, next.Before, next.At = state.Prefix, state.Last+1, state.InForce, state.Now
	next.Author, next.Note, next.Program = b.author, b.note, thisBuild().version
	text, err := next.Encode()
	if err != nil {
		return failure{err}
	}
	proposal := adminapi.NewVersion{Manifest: string(text), TimeoutMS: b.wait.Milliseconds(), Quorum: b.quorum, Trial: b.trial}
	w := &waiting{program: p, publishing: b, hash: next.Hash}
	if b.signKey != "" {
		key, err := fleet.ReadPrivateKey(b.signKey)
		if err != nil {
			return failure{fmt.Errorf("--sign-key: %w", err)}
		}
		proposal.Signature = fleet.Sign(key, b.purpose(), text)
		w.inForce = fleet.Sign(key, fleet.InForce, text)
	}
	p.nameTrial(ctx, b)
	var proposed adminapi.Proposed
	if err := b.call(ctx, p.environ, http.MethodPost, "versions", &proposal, &proposed); err != nil {
		return err
	}
	if proposed.Changes != nil && b.format.value == "text" {
		display.Printf(p.stdout, "version %d → %d: %s\n", state.InForce, proposed.Version, proposed.Changes)
	}
	w.number, w.changes = proposed.Version, proposed.Changes
	return w.end(ctx)
}

// purpose returns what the signature of the proposal is for.
func (b *publishing) purpose() fleet.Purpose {
	if t := b.trial; t != nil {
		return fleet.ToTry(&fleet.TrialOptions{Length: time.Duration(t.LengthMS) * time.Millisecond, Then: t.Then, AbortAbove: t.AbortAbove})
	}
	return fleet.ToPublish
}
