package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// pluginPause is how long a call of the plugin of writePlugin takes at least.
const pluginPause = 20 * time.Millisecond

// writePlugin writes a CNI plugin that logs its calls. The calls whose numbers match the shell
// pattern fail.
func writePlugin(t *testing.T, failing string) Plugin {
	t.Helper()
	program := filepath.Join(t.TempDir(), "plugin")
	script := fmt.Sprintf(`#!/bin/sh
echo "$CNI_COMMAND $CNI_CONTAINERID $CNI_NETNS $CNI_IFNAME $(cat)" >>"$0.log"
sleep %g
case $(wc -l <"$0.log") in
%s) echo "no VF is free"; exit 1 ;;
esac
`, pluginPause.Seconds(), failing)
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return Plugin{Path: program, Config: []byte(`{"type":"culvert"}`), Netns: "/run/netns/a", Interface: "net1"}
}

// pluginCalls returns the calls that the plugin has logged, without the number of this process.
func pluginCalls(t *testing.T, p Plugin) []string {
	t.Helper()
	text, err := os.ReadFile(p.Path + ".log")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(strings.ReplaceAll(string(text), fmt.Sprint("bench-", os.Getpid()), "bench")), "\n")
}

// TestAttachments calls a plugin as a runtime does (CNI specification 1.1, section 2): with
// variables, and with the configuration on standard input. The first call that fails is the last,
// but for the DEL that takes back a failed ADD.
func TestAttachments(t *testing.T) {
	call := func(command string, container int) string {
		return fmt.Sprintf(`%s bench-%d /run/netns/a net1 {"type":"culvert"}`, command, container)
	}
	for name, c := range map[string]struct {
		failing string
		calls   []string
		timed   int
		errs    []string // the texts that the error has
	}{
		"all":                 {"none", []string{call("ADD", 0), call("DEL", 0), call("ADD", 1), call("DEL", 1)}, 2, nil},
		"an ADD fails":        {"3", []string{call("ADD", 0), call("DEL", 0), call("ADD", 1), call("DEL", 1)}, 1, []string{"CNI ADD of bench-", "exit status 1: no VF is free"}},
		"a DEL fails":         {"2", []string{call("ADD", 0), call("DEL", 0)}, 0, []string{"CNI DEL of bench-", "exit status 1: no VF is free"}},
		"an ADD and its undo": {"1|2", []string{call("ADD", 0), call("DEL", 0)}, 0, []string{"CNI ADD of bench-", "CNI DEL of bench-"}},
	} {
		p := writePlugin(t, c.failing)
		got, err := Attachments(t.Context(), p, 2)
		if diff := cmp.Diff(c.calls, pluginCalls(t, p)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		if (err == nil) != (c.errs == nil) {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range c.errs {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
		if len(got.Add) != c.timed || len(got.Del) != c.timed {
			t.Errorf("%s: %d and %d calls are timed, want %d", name, len(got.Add), len(got.Del), c.timed)
		}
		for _, took := range append(got.Add, got.Del...) {
			if took < pluginPause {
				t.Errorf("%s: a call of %s took %s", name, pluginPause, took)
			}
		}
	}
}

// TestAttachmentsCancelled: a caller that gives up leaves no attachment behind.
func TestAttachmentsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := writePlugin(t, "none")
	if _, err := Attachments(ctx, p, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	if calls := pluginCalls(t, p); len(calls) != 1 || !strings.HasPrefix(calls[0], "DEL bench-0 ") {
		t.Errorf("%q, want one DEL", calls)
	}
}
