package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/test/rpcserver"
)

var pageURL = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?token=[\w-]{43}`)

// nextURL waits until the command has printed its nth URL.
func (l *lines) nextURL(t *testing.T, n int) string {
	t.Helper()
	for range 3000 {
		l.mu.Lock()
		all := pageURL.FindAllString(l.b.String(), -1)
		l.mu.Unlock()
		if len(all) >= n {
			return all[n-1]
		}
		time.Sleep(10 * time.Millisecond)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Fatalf("no URL %d: %s", n, l.b.String())
	return ""
}

// openPage opens a URL in a browser without cookies.
func openPage(t *testing.T, u string) (*http.Client, answer) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	return browser, get(t, browser, u)
}

// answer is what a browser got. Its body is closed when the test ends.
type answer struct {
	http.Response
	Body io.Reader
}

func get(t *testing.T, browser *http.Client, u string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := browser.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return answer{*resp, resp.Body}
}

// awaitEvent waits until a stream has an event of that name whose data has text.
func awaitEvent(t *testing.T, stream io.Reader, name, text string) {
	t.Helper()
	in := bufio.NewReader(stream)
	for {
		event, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if data, _ := in.ReadString('\n'); event == "event: "+name+"\n" && strings.Contains(data, text) {
			return
		}
		_, _ = in.ReadString('\n')
	}
}

// culvert ui shows the host that its culvertd describes. Each Enter makes a URL for one more browser.
func TestUI(t *testing.T) {
	c, socket := newChanging(), rpcserver.Socket(t)
	c.set(func(st *api.NodeStatus) { st.Node = "host1" })
	defer c.listen(t, socket)()
	term := openTerminal(t)
	cmd := term.start(t, "--socket", socket, "ui")
	term.await(t, "The page of host host1, for one browser on this machine:")
	term.await(t, "ssh -L ")
	first := term.nextURL(t, 1)
	browser, resp := openPage(t, first)
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	base, _, _ := strings.Cut(first, "/?")
	stream := get(t, browser, base+"/stream?node=host1")
	awaitEvent(t, stream.Body, "node", `"enp1s0#0"`)
	c.set(func(st *api.NodeStatus) { st.VFs[0].Phase = "attached" })
	c.events <- struct{}{}
	awaitEvent(t, stream.Body, "node", `"phase":"attached"`)
	if _, resp := openPage(t, first); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("the URL works again: %s", resp.Status)
	}
	term.typeKeys(t, "\n")
	if _, resp := openPage(t, term.nextURL(t, 2)); resp.StatusCode != http.StatusOK {
		t.Errorf("the second URL: %s", resp.Status)
	}
	term.typeKeys(t, "\x03") // Ctrl-C
	if shown, err := term.wait(cmd); err != nil {
		t.Errorf("%v: %s", err, shown)
	}
	_, _ = io.Copy(io.Discard, stream.Body) // it ends
}

// The page ends with its terminal, also for a process that ignores SIGHUP, and leaves nothing behind. The
// token is in no process list.
func TestUIEndsWithItsTerminal(t *testing.T) {
	c, socket := newChanging(), rpcserver.Socket(t)
	defer c.listen(t, socket)()
	for name, shell := range map[string]string{"SIGHUP": "", "the terminal alone": "trap '' HUP; "} {
		dir := t.TempDir()
		term := openTerminal(t)
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-c", shell+`exec -a culvert "$0" --socket "$1" ui`, self, socket)
		cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir, "XDG_RUNTIME_DIR="+dir)
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, term.screen, term.screen, term.screen
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := errors.Join(cmd.Start(), term.screen.Close()); err != nil {
			t.Fatal(err)
		}
		u := term.nextURL(t, 1)
		token := strings.SplitAfter(u, "token=")[1]
		for _, file := range []string{"cmdline", "environ"} {
			if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", cmd.Process.Pid, file)); err != nil || strings.Contains(string(text), token) {
				t.Errorf("%s: others read the token in %s: %v", name, file, err)
			}
		}
		_ = term.keys.Close()
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Errorf("%s: the page outlives its terminal", name)
			_ = cmd.Process.Kill()
			<-done
		}
		if conn, err := net.Dial("tcp", strings.TrimPrefix(strings.Split(u, "/?")[0], "http://")); err == nil {
			_ = conn.Close()
			t.Errorf("%s: something still listens", name)
		}
		if left, err := filepath.Glob(dir + "/*"); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind: %v %v", name, left, err)
		}
	}
}

// The page ends when standard input does, and says so.
func TestUIEndsWithItsInput(t *testing.T) {
	c, socket := newChanging(), rpcserver.Socket(t)
	defer c.listen(t, socket)()
	out, err := run(t.Context(), t, socket, "ui")
	if err != nil || !pageURL.MatchString(out) || !strings.Contains(out, "standard input has") {
		t.Errorf("%v: %s", err, out)
	}
}

// kubectl culvert ui shows the cluster of the kubeconfig. Mistakes are errors before anything listens.
func TestUIOfACluster(t *testing.T) {
	t.Setenv("KUBECONFIG", apiServer(t, daemonPods))
	ctx, cancel := context.WithCancel(t.Context())
	in, keyboard := io.Pipe()
	var out lines
	root := newCommand(pluginName, []string{"ui"})
	root.SetIn(in)
	root.SetOut(&out)
	done := make(chan error)
	go func() { done <- root.ExecuteContext(ctx) }()
	u := out.nextURL(t, 1)
	out.await(t, "The page of cluster prod")
	browser, _ := openPage(t, u)
	base, _, _ := strings.Cut(u, "/?")
	if text, err := io.ReadAll(get(t, browser, base+"/data/overview").Body); err != nil || !strings.Contains(string(text), `"name":"worker02"`) {
		t.Errorf("%v %s", err, text)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = keyboard.Close()
	for line, want := range map[string]string{
		"ui --node worker01": "leave --node out", "ui --plan /none.yaml": "name a file that is there", "ui --port 70000": "65535", "ui --context gone": "is the API server up",
	} {
		if text, err := called(t, pluginName, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v %s", line, err, text)
		}
	}
}
