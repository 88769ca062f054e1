package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/dropin/folder"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/trial"
	"github.com/koalagate/koalagate/rules"
)

// LimitFiles returns those of the files on trial that have limits of envoyproxy/ratelimit: YAML,
// by their extensions. The others are rule files.
func LimitFiles(paths []string) (limits, ruleFiles []string) {
	for _, path := range paths {
		switch strings.ToLower(filepath.Ext(path)) {
		case ".yaml", ".yml":
			limits = append(limits, path)
		default:
			ruleFiles = append(ruleFiles, path)
		}
	}
	return limits, ruleFiles
}

// triedFiles are the files on trial. A change of any of them begins a new trial of all.
type triedFiles struct {
	trials *trials
	rules  *reload.Reloader // nil without rule files
	limits *folder.Folder   // nil without files of limits

	mu         sync.Mutex
	now        candidates
	limitsHash string
}

// openFiles begins the trial of files, and follows their changes.
func (r *trials) openFiles(paths []string) error {
	t := &triedFiles{trials: r}
	limits, ruleFiles := LimitFiles(paths)
	if len(limits) > 0 && r.s.imported == nil {
		return fmt.Errorf("trial: %s has limits of envoyproxy/ratelimit, which koalagate ratelimit alone decides by; want rule files, such as those that koalagate import writes", limits[0])
	}
	if err := t.readRules(ruleFiles); err != nil {
		return err
	}
	if len(limits) > 0 {
		t.limits = folder.New(folder.Options{Files: limits, Poll: r.s.config.WatchInterval, Logger: r.s.logger.With("trial", true)})
		configs, err := t.limits.First()
		if err == nil {
			t.now.limits, err = r.s.imported.Keeper.Compile(configs)
		}
		if err != nil {
			return fmt.Errorf("the limits on trial have errors: %w", err)
		}
		t.limitsHash = t.limits.Hash()
	}
	if err := t.begin(); err != nil {
		return err
	}
	r.s.work(func(ctx context.Context) { delay.Every(ctx, keepInterval, nil, func() { r.keep(ctx) }) })
	if t.rules != nil {
		r.s.work(func(ctx context.Context) { t.rules.Run(ctx, t.useRules) })
	}
	if t.limits != nil {
		r.s.work(func(ctx context.Context) { t.limits.Run(ctx, t.useLimits) })
	}
	return nil
}

// readRules reads the rule files for the first time. Without any, no rules are on trial.
func (t *triedFiles) readRules(paths []string) error {
	s := t.trials.s
	if len(paths) == 0 {
		set, _, err := NoRules().Load()
		t.now = candidates{rules: set, limitsOnly: true}
		return err
	}
	files := s.ruleFiles()
	files.Paths = paths
	source := reload.New(reload.Options{Files: files, Interval: s.config.WatchInterval, Logger: s.logger.With("trial", true)})
	set, findings, err := source.First()
	switch {
	case err != nil:
		return fmt.Errorf("cannot read the rules on trial: %w", err)
	case findings.HasErrors():
		return fmt.Errorf("the rules on trial have errors: %w", &reload.FindingsError{Findings: findings})
	}
	t.now.rules, t.rules = set, source
	return nil
}

// useRules tries changed rules.
func (t *triedFiles) useRules(set *rules.Set) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now.rules = set
	t.beginChanged()
}

// useLimits tries changed limits, unless they cannot be read.
func (t *triedFiles) useLimits(configs []*envoylimits.Config, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limits.Hash() == t.limitsHash {
		return
	}
	t.limitsHash = t.limits.Hash()
	var set *envoylimits.Set
	if err == nil {
		set, err = t.trials.s.imported.Keeper.Compile(configs)
	}
	if err != nil {
		t.trials.s.logger.Error("the changed limits are not on trial: they are invalid", "trial", true, "error", err)
		return
	}
	t.now.limits = set
	t.beginChanged()
}

func (t *triedFiles) beginChanged() {
	if err := t.begin(); err != nil {
		t.trials.s.logger.Error("the changed files are not on trial", "error", err)
	}
}

// begin begins a trial of the files as they were read last.
func (t *triedFiles) begin() error {
	hash := t.now.rules.Hash
	switch {
	case t.limits == nil:
	case t.rules == nil:
		hash = t.limitsHash
	default:
		sum := sha256.Sum256([]byte(hash + t.limitsHash))
		hash = hex.EncodeToString(sum[:])
	}
	return t.trials.begin(&trial.Report{Hash: hash}, t.now, hash[:16], time.Time{})
}
