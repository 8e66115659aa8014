package gather_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/admin/doctor"
	"github.com/culvert-net/culvert/internal/admin/doctor/gather"
)

// The script runs in any POSIX shell, busybox's too, and in a shell that greets or that stays
// connected. It reports this machine as it is.
func TestInsideByShell(t *testing.T) {
	for name, by := range map[string]string{
		"a shell": "sh", "busybox's": "busybox sh", "one that greets": "echo hello; printf 'no newline:'; sh",
	} {
		t.Run(name, func(t *testing.T) { isThisMachine(t, gather.Inside(t.Context(), "db1", by)) })
	}
}

func isThisMachine(t *testing.T, in doctor.Inside) {
	t.Helper()
	if in.Err != "" || in.Kernel != "Linux" || in.Release == "" || len(in.CPUs) == 0 || len(in.CPUs) < runtime.NumCPU() {
		t.Fatalf("%+v", in)
	}
	for _, i := range in.Interfaces {
		if i.Name == "" || i.MTU == 0 || i.RxQueues == 0 {
			t.Errorf("%+v", i)
		}
	}
	if slices.ContainsFunc(in.Interfaces, func(i doctor.InsideInterface) bool { return i.Name == "lo" }) {
		t.Error("the loopback interface is no device")
	}
}

func TestInsideSaysWhatIsWrong(t *testing.T) {
	for by, want := range map[string]string{
		"echo nobody there >&2; exit 255":                 "exit status 255: nobody there",
		"read -r line; echo culvert:reads; echo C:; exit": "the answer is not that of a Linux guest",
		"yes no shell": "what answers is no shell",
	} {
		if in := gather.Inside(t.Context(), "db1", by); !strings.Contains(in.Err, want) {
			t.Errorf("%s: %q, want %q", by, in.Err, want)
		}
	}
}

func TestInsideWithoutShell(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if in := gather.Inside(t.Context(), "db1", "sh"); !strings.Contains(in.Err, "executable file not found") {
		t.Error(in.Err)
	}
}

// The guest agent runs the script too. virsh gives its answers in JSON.
func TestInsideByAgent(t *testing.T) {
	bin := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(bin, "virsh"), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	said := base64.StdEncoding.EncodeToString([]byte("kernel Linux release=6.12\ncpus online list=0-" + fmt.Sprint(runtime.NumCPU()-1) + "\n"))
	write(`[ "$1 $2 $3 $4" = "qemu-agent-command --domain db1 --cmd" ] || exit 9
case $5 in
*'"/bin/sh"'*'"guest-exec"'*) echo '{"return":{"pid":7}}' >"` + bin + `/n"; cat "` + bin + `/n";;
*'"guest-exec-status"'*) if [ -e "` + bin + `/asked" ]; then echo '{"return":{"exited":true,"exitcode":0,"out-data":"` + said + `"}}'
	else : >"` + bin + `/asked"; echo '{"return":{"exited":false}}'; fi;;
*) exit 8;; esac
`)
	isThisMachine(t, gather.Inside(t.Context(), "db1", gather.Agent))
	for text, want := range map[string]string{
		"case $5 in *guest-exec-status*) exit 3;; *) echo '{\"return\":{\"pid\":7}}';; esac\n":                                   "guest-exec-status: exit status 3",
		"case $5 in *guest-exec-status*) echo '{\"return\":{\"exited\":\"yes\"}}';; *) echo '{\"return\":{\"pid\":7}}';; esac\n": "guest-exec-status: json: ",
	} {
		write(text)
		if in := gather.Inside(t.Context(), "db1", gather.Agent); !strings.Contains(in.Err, want) {
			t.Errorf("%s: %q, want %q", text, in.Err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	write("case $5 in *guest-exec-status*) echo '{\"return\":{\"exited\":false}}';; *) echo '{\"return\":{\"pid\":7}}';; esac\n")
	if in := gather.Inside(ctx, "db1", gather.Agent); in.Err == "" {
		t.Error("a guest whose program never ends has an answer")
	}
	write("echo 'error: Guest agent is not responding' >&2; exit 1\n")
	if in := gather.Inside(t.Context(), "db1", gather.Agent); !strings.Contains(in.Err, "Guest agent is not responding") || !strings.Contains(in.Err, "needs qemu-guest-agent") {
		t.Error(in.Err)
	}
}
