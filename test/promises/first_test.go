package promises

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// writeScripts writes executable files below dir.
func writeScripts(t *testing.T, dir string, scripts map[string]string) {
	t.Helper()
	for name, body := range scripts {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// A machine with Go 1.23 fetches the toolchain of go.mod. tools/go shows that while Go does it.
func TestGoSaysWhatItFetches(t *testing.T) {
	dir := t.TempDir()
	seen := filepath.Join(dir, "seen")
	writeScripts(t, dir, map[string]string{"go": `#!/bin/sh
[ "${GOTOOLCHAIN-}" = auto ] || { echo 'go: go.mod requires go >= 1.24.0 (running go 1.23.5; GOTOOLCHAIN=local)' >&2; exit 1; }
echo 'go: downloading go1.24.0 (linux/amd64)' >&2
for try in $(seq 100); do
	[ ! -e ` + seen + ` ] || { echo go1.24.0; exit; }
	sleep 0.1
done
exit 1
`})
	cmd := exec.CommandContext(t.Context(), filepath.Join(top, "tools/go"), "-which")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "GOTOOLCHAIN=local")
	var found bytes.Buffer
	cmd.Stdout = &found
	errs, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(errs)
	line, _ := in.ReadString('\n')
	if err := os.WriteFile(seen, nil, 0o600); err != nil {
		t.Error(err)
	}
	rest, _ := io.ReadAll(in)
	if err := cmd.Wait(); err != nil || strings.TrimSpace(found.String()) != filepath.Join(dir, "go") {
		t.Errorf("%v: it found %q", err, found.String())
	}
	if got, want := line+string(rest), "go: downloading go1.24.0 (linux/amd64)\n"; got != want {
		t.Errorf("it said %q, want %q", got, want)
	}
}

// The first build of a program of tools/ takes a minute on a machine without anything in Go's cache,
// and tools/watch shows that it runs. The program's output has nothing of that.
func TestFirstBuildOfAToolIsWatched(t *testing.T) {
	dir := t.TempDir()
	script, err := os.ReadFile(filepath.Join(top, "tools/run"))
	if err != nil {
		t.Fatal(err)
	}
	writeScripts(t, dir, map[string]string{
		"tools/run":   string(script),
		"tools/watch": "#!/bin/sh\necho \"watched: $*\"\nshift\nexec \"$@\"\n",
		"tools/go":    "#!/bin/sh\nprintf '#!/bin/sh\\necho program $1\\n' >$3 && chmod +x $3\n",
	})
	for _, want := range []string{"watched: build-levels tools/go build -o build/tools/levels ./tools/levels\n", ""} {
		cmd := exec.CommandContext(t.Context(), "tools/run", "levels", "lab")
		cmd.Dir = dir
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil || string(out) != "program lab\n" || said.String() != want {
			t.Errorf("%v: %q, and on standard error %q, want %q", err, out, said.String(), want)
		}
	}
}

// With GOTOOLCHAIN=go1.24.0+auto, Go 1.23 fetched the newest Go there is to build the linter.
func TestToolsAreBuiltByTheGoOfTheTree(t *testing.T) {
	for _, tool := range []string{"lint", "vuln"} {
		dir := t.TempDir()
		scripts := map[string]string{"tools/go": `#!/bin/sh
case $1 in
env) [ $2 != GOVERSION ] || echo go1.24.0 ;;
install)
	echo "$GOTOOLCHAIN" >` + dir + `/toolchain
	for program in golangci-lint govulncheck; do
		printf '#!/bin/sh\n' >"$GOBIN/$program" && chmod +x "$GOBIN/$program"
	done
	;;
esac
`}
		for _, name := range []string{"tools/" + tool, "tools/versions"} {
			body, err := os.ReadFile(filepath.Join(top, name))
			if err != nil {
				t.Fatal(err)
			}
			scripts[name] = string(body)
		}
		writeScripts(t, dir, scripts)
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "tools", tool))
		cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
		out, err := cmd.CombinedOutput()
		got, _ := os.ReadFile(filepath.Join(dir, "toolchain"))
		if err != nil || string(got) != "go1.24.0\n" {
			t.Errorf("tools/%s: %v: GOTOOLCHAIN was %q: %s", tool, err, got, out)
		}
	}
}
