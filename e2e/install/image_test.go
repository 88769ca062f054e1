package install_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// image is what the final stage of the Dockerfile sets.
type image struct {
	isScratch               bool
	user, volume            string
	copied                  []string
	env                     []string
	entrypoint, cmd, health []string
	others                  []string // the names of further instructions
}

var instruction = regexp.MustCompile(`(?m)^([A-Z]+) ((?:.*\\\n)*.*)$`)

// readImage parses the Dockerfile.
func readImage(t *testing.T) image {
	t.Helper()
	_, final, found := strings.Cut(read(t, "deploy/docker/Dockerfile"), "\nFROM scratch\n")
	i := image{isScratch: found}
	for _, m := range instruction.FindAllStringSubmatch(final, -1) {
		text := strings.ReplaceAll(m[2], "\\\n", "")
		switch m[1] {
		case "ENV":
			i.env = append(i.env, strings.Fields(text)...)
		case "USER":
			i.user = text
		case "VOLUME":
			i.volume = text
		case "COPY":
			i.copied = append(i.copied, text)
		case "ENTRYPOINT":
			i.entrypoint = words(t, text)
		case "CMD":
			i.cmd = words(t, text)
		case "HEALTHCHECK":
			_, command, _ := strings.Cut(text, "CMD ")
			i.health = words(t, command)
		default:
			i.others = append(i.others, m[1])
		}
	}
	return i
}

// words parses the exec form of an instruction.
func words(t *testing.T, text string) (list []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%s: %v; want the exec form, because the image has no shell", text, err)
	}
	return list
}

// stateDir is where instances in containers remember which version they have seen.
const stateDir = "/var/lib/koalagate"

// The image starts as another user than root, remembers in a volume, and checks itself, without a
// shell.
func TestDockerfile(t *testing.T) {
	i := readImage(t)
	want := []string{"--from=build /rootfs /", "--from=build --chown=65532:65532 /rootfs/var/lib/koalagate /var/lib/koalagate"}
	if !i.isScratch || !slices.Equal(i.copied, want) {
		t.Errorf("the image copies %q; want only the file system of deploy/docker/rootfs.sh, with a folder of its user", i.copied)
	}
	if i.user != "65532:65532" {
		t.Errorf("the user is %s", i.user)
	}
	if len(i.entrypoint) != 1 || len(i.health) != 2 || i.health[0] != i.entrypoint[0] || i.health[1] != "healthcheck" {
		t.Errorf("the entrypoint is %q, and the health check %q", i.entrypoint, i.health)
	}
	if i.volume != stateDir || !slices.Contains(i.env, "KOALAGATE_STATE_DIR="+stateDir) {
		t.Errorf("the volume is %q, the settings %q; want the volume and state_dir to be %s", i.volume, i.env, stateDir)
	}
	for _, other := range i.others {
		if !strings.Contains("LABEL EXPOSE STOPSIGNAL", other) {
			t.Errorf("the final stage has %s, which this test does not know", other)
		}
	}
}

// The file system of the image starts without a container: as its user, read-only,
// without capabilities and in a network of its own. image.sh describes the steps.
func TestImageStarts(t *testing.T) {
	if !*long {
		return
	}
	t.Log(run(t, nil, "hadolint", "deploy/docker/Dockerfile"))
	root := filepath.Join(t.TempDir(), "root")
	run(t, nil, "deploy/docker/rootfs.sh", root)
	i := readImage(t)
	env := []string{
		"ROOT=" + root, "IMAGE_USER=" + i.user, "IMAGE_ENV=" + strings.Join(i.env, " "),
		"IMAGE_START=" + strings.Join(append(i.entrypoint, i.cmd...), " "), "IMAGE_HEALTH=" + strings.Join(i.health, " "),
	}
	t.Log(run(t, env, "timeout", "-s", "KILL", "60", "unshare", "--mount", "--pid", "--fork", "--net", "--ipc", "--kill-child", "e2e/install/image.sh"))
}
