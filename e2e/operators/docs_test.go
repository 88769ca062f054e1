package operators_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// docTimeout bounds the commands of one page. Almost all pages take a few seconds.
const docTimeout = 5 * time.Minute

// docPages returns the pages with commands, by name.
func docPages(t *testing.T) map[string][]docBlock {
	t.Helper()
	root := rig.Must(e2e.NewStage(""))(t).Path(".")
	pages := make(map[string][]docBlock)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "deploy/*/*.md"} {
		for _, path := range rig.Must(filepath.Glob(filepath.Join(root, pattern)))(t) {
			name := rig.Must(filepath.Rel(root, path))(t)
			if blocks := docBlocks(t, name, string(rig.Must(os.ReadFile(path))(t))); len(blocks) > 0 {
				pages[name] = blocks
			}
		}
	}
	return pages
}

// Every command line of the pages runs as written, in the order of the page and in one
// shell, apart from the ports. Servers keep running until the end of the page, or until
// the same program is started again. A page that does not start koalagate asks one with
// the rules of the sample, or finds what docSetups describes.
func TestCommandsOfThePages(t *testing.T) {
	pages := docPages(t)
	ran := 0
	for name, blocks := range pages {
		if !slices.ContainsFunc(blocks, func(b docBlock) bool { return b.untested == "" }) {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runPage(t, name, blocks)
		})
	}
	if ran < 20 {
		t.Errorf("only %d pages with commands", ran)
	}
}

// docSetups are commands before those of a page: the page is for operators who already
// have published rules, or a decision log.
var docSetups = map[string]string{
	"docs/runbooks/README.md": `koalagate serve --rules redis: --redis redis://127.0.0.1:6379
koalagate publish examples/gateway.conf
until koalagate healthcheck; do sleep 0.1; done
for i in {2..3}; do sed "s/count=4/count=$i/" examples/gateway.conf > examples/next.conf; koalagate publish examples/next.conf; done
`,
	"docs/runbooks/refusals-rise.md": `KOALAGATE_DECISION_LOG=/var/log/koalagate/decisions.jsonl koalagate serve --rules redis: --redis redis://127.0.0.1:6379
koalagate publish examples/gateway.conf
until koalagate healthcheck; do sleep 0.1; done
curl -s 'http://127.0.0.1:9981/rule/take?act=comment&uid=ann'
until [ -s /var/log/koalagate/decisions.jsonl ]; do sleep 0.1; done
`,
}

func runPage(t *testing.T, name string, blocks []docBlock) {
	if setup := docSetups[name]; setup != "" {
		blocks = append([]docBlock{{commands: setup}}, blocks...)
	}
	stage := rig.Must(e2e.NewStage(t.TempDir()))(t)
	t.Cleanup(func() {
		if err := stage.Close(); err != nil {
			t.Error(err)
		}
	})
	tree := newDocTree(t, stage, blocks)
	ctx, cancel := context.WithTimeout(t.Context(), docTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", tree.ports.Replace(script(tree, blocks)))
	c.Dir = tree.dir
	c.Env = []string{
		"HOME=" + tree.dir, "TMPDIR=" + tree.dir, "MANPAGER=cat",
		"PATH=" + filepath.Join(tree.dir, "bin") + ":" + stage.Path(".tools/bin") + ":" + os.Getenv("PATH") + ":/usr/sbin",
		"KOALAGATE_GRPC_ADDR=127.0.0.1:" + tree.port["9191"], "KOALAGATE_HTTP_ADDR=127.0.0.1:" + tree.port["9981"],
		"KOALAGATE_ADMIN_ADDR=127.0.0.1:" + tree.port["9982"], "KOALAGATE_REDIS_BUDGET=5s",
		"GORACE=" + os.Getenv("GORACE"), "KOALAGATE_DRAIN_WAIT=0s", // no gateway notices the end of a page's server
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // whatever the script has left
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out.String())
	}
	parts := strings.Split(out.String(), "\n@@end\n")
	at := 0
	for _, b := range blocks {
		if b.untested != "" {
			continue
		}
		checkOutput(t, fmt.Sprintf("%s:%d", name, b.line), parts[at], tree.ports.Replace(b.output))
		at++
	}
}

// checkOutput compares the output of a block with the lines that the page shows: they
// occur in this order, and … stands for any text.
func checkOutput(t *testing.T, where, got, want string) {
	t.Helper()
	lines := strings.Split(strings.ReplaceAll(got, "\r", ""), "\n")
	for line := range strings.Lines(want) {
		line = strings.TrimSpace(line)
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + "$")
		at := slices.IndexFunc(lines, func(l string) bool { return pattern.MatchString(strings.TrimSpace(l)) })
		if at < 0 {
			t.Errorf("%s: the page shows %q; the output is\n%s", where, line, got)
			return
		}
		lines = lines[at+1:]
	}
}

// docServer matches a command that runs until ^C. Its second group is the program.
var docServer = regexp.MustCompile(`^((?:[A-Z_]+=\S+ )*(koalagate serve|envoy|nginx|haproxy|traefik|caddy respond|caddy run) .*?)(?: +# .*)?$`)

// docAsksInstance matches the commands that need a running instance.
var docAsksInstance = regexp.MustCompile(`:(9191|9981|9982)|koalagate (healthcheck|why|top|reset|exception|trial|publish|versions|rollback|instances)`)

// docException is an ID in a page, which the commands replace by the one that they made.
var docException = regexp.MustCompile(`(koalagate exception remove) [0-9A-Z]{12}$`)

// docSearch matches a search in a page.
var docSearch = regexp.MustCompile(`^(curl .*\| grep .*?)(?: +# .*)?$`)

// serverPorts are the ports at which servers listen when they are up.
var serverPorts = map[string]string{
	"koalagate serve": "9982", "envoy": "10000", "nginx": "8080", "haproxy": "8080", "traefik": "8080", "caddy run": "8080", "caddy respond": "8000",
}

// docFunctions start and stop servers: serve NAME PORT COMMAND.
const docFunctions = `set -eEu -o pipefail
declare -A servers
trap 'echo "line $LINENO: $BASH_COMMAND: exit code $?"' ERR
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
serve() {
  if [ -n "${servers[$1]:-}" ]; then kill "${servers[$1]}"; wait "${servers[$1]}" || true; fi
  eval "exec env $3" >"server-$2.log" 2>&1 &
  servers[$1]=$!
  for ((tries = 0; tries < 600; tries++)); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null; then return; fi
    kill -0 "${servers[$1]}" 2>/dev/null || break
    sleep 0.1
  done
  echo "$1 does not answer:" && cat "server-$2.log"
  exit 9
}
`

// script returns the shell script of a page.
func script(tree *docTree, blocks []docBlock) string {
	var b strings.Builder
	b.WriteString(docFunctions)
	started := false
	for _, block := range blocks {
		if block.untested != "" {
			continue
		}
		commands := strings.ReplaceAll(block.commands, "\\\n", " ")
		starts := strings.Contains(commands, "koalagate serve")
		if docAsksInstance.MatchString(commands) && !starts && !started {
			commands = "koalagate serve --rules examples/gateway.conf\n" + commands
			starts = true
		}
		started = started || starts
		for line := range strings.Lines(commands) {
			line = strings.TrimSuffix(line, "\n")
			if m := docServer.FindStringSubmatch(line); m != nil {
				if m[2] == "envoy" {
					m[1] += " --disable-hot-restart" // its sockets are those of every Envoy of the machine
				}
				fmt.Fprintf(&b, "serve '%s' %s %s\n", m[2], tree.port[serverPorts[m[2]]], quote(m[1]))
				continue
			}
			if m := docSearch.FindStringSubmatch(line); m != nil {
				line = m[1] + " || [ $? = 1 ]" // a search may find nothing
			}
			if strings.HasPrefix(line, "curl -N ") {
				line = "{ timeout 60 " + line + " || true; } | sed '/^event: decisions/{n;q}'" // the reader leaves the stream
			}
			line = docException.ReplaceAllString(line, "$1 $(koalagate exception list | cut -d' ' -f1)")
			b.WriteString(line + "\n")
		}
		b.WriteString("printf '\\n@@end\\n'\n")
	}
	return b.String()
}

// quote quotes a word for the shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

var (
	// These are commands in prose, and at the beginning of a line of a block.
	inlineCommand = regexp.MustCompile("`(koalagate [a-z][^`]*)`")
	inlineTarget  = regexp.MustCompile("`make ([a-z]+)")
	blockCommand  = regexp.MustCompile(`(?m)^(?:sudo )?(koalagate [a-z].*)$`)
	blockTarget   = regexp.MustCompile(`(?m)^make ([a-z]+)`)
	commandFlag   = regexp.MustCompile(` (--[a-z][a-z-]*)`)
	commandWord   = regexp.MustCompile(`^[a-z]+$`)
)

// Commands in prose, and those that cannot run here, name subcommands, flags and targets
// that exist, and blocks that are not run are at least valid for the shell.
func TestCommandsThatAreNotRun(t *testing.T) {
	t.Parallel()
	stage := rig.Must(e2e.NewStage(""))(t)
	makefile := string(rig.Must(os.ReadFile(stage.Path("Makefile")))(t))
	help := make(map[string]string)
	for name, blocks := range docPages(t) {
		text := string(rig.Must(os.ReadFile(stage.Path(name)))(t))
		commands, targets := inlineCommand.FindAllStringSubmatch(text, -1), inlineTarget.FindAllStringSubmatch(text, -1)
		for _, b := range blocks {
			body := strings.ReplaceAll(b.commands, "\\\n", " ")
			commands = append(commands, blockCommand.FindAllStringSubmatch(body, -1)...)
			targets = append(targets, blockTarget.FindAllStringSubmatch(body, -1)...)
			c := exec.Command("bash", "-n")
			c.Stdin = strings.NewReader(b.commands)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", name, b.line, err, out)
			}
		}
		for _, m := range targets {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: there is no make %s", name, m[1])
			}
		}
		for _, m := range commands {
			checkFlags(t, name, m[1], help)
		}
	}
}

// checkFlags reports flags of a command that its help does not have.
func checkFlags(t *testing.T, page, command string, help map[string]string) {
	t.Helper()
	words := strings.Fields(command)
	sub := words[1:2]
	if len(words) > 2 && slices.Contains([]string{"config", "exception", "help", "key", "versions"}, sub[0]) && commandWord.MatchString(words[2]) {
		sub = words[1:3]
	}
	key := strings.Join(sub, " ")
	if help[key] == "" {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out, err := exec.CommandContext(ctx, rig.Binary, append(slices.Clone(sub), "--help")...).CombinedOutput()
		cancel()
		help[key] = string(out)
		if err != nil || !strings.Contains(help[key], "koalagate "+strings.TrimPrefix(key, "help ")) {
			t.Errorf("%s: koalagate has no command %s: %v", page, key, err)
		}
	}
	for _, m := range commandFlag.FindAllStringSubmatch(command, -1) {
		if !strings.Contains(help[key], m[1]) {
			t.Errorf("%s: koalagate %s has no flag %s: %s", page, key, m[1], command)
		}
	}
}
