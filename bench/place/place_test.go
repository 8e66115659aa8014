package place

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/program"
)

// TestMain is the agent when it is called as one, and a program culvert-lab ([fakeLab]) under
// that name. As the agent it prints its network namespace, the folder of its program and the number
// of interfaces in /sys. Then it repeats each line of its input. At "stay" it does not leave for an
// hour, and at "leave" it leaves at once.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == program.Lab {
		fakeLab(os.Args[1:])
	}
	if len(os.Args) == 2 && os.Args[1] == "agent" {
		here, _ := os.Readlink("/proc/self/ns/net")
		self, _ := os.Executable()
		sys, _ := filepath.Glob("/sys/class/net/*")
		fmt.Println(here, filepath.Dir(self), len(sys))
		fmt.Fprintln(os.Stderr, "an agent was here")
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			fmt.Println("heard", in.Text())
			switch in.Text() {
			case "stay":
				time.Sleep(time.Hour)
			case "leave":
				os.Exit(0)
			}
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func ownProgram(t *testing.T) Program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Program{Path: self, Version: "v1.2.3"}
}

// sentBelow wants the program to have been sent to a folder below tmp, and to leave nothing there.
func sentBelow(t *testing.T, p *Pipe, tmp string) {
	t.Helper()
	if _, dir, _ := checkHello(t, p); filepath.Dir(dir) != tmp {
		t.Errorf("the program was started in %s, not below %s", dir, tmp)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	empty(t, tmp)
}

// checkHello reads the first lines of the agent.
func checkHello(t *testing.T, p *Pipe) (ns, dir, interfaces string) {
	t.Helper()
	if _, err := fmt.Fprintln(p, "x"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(p)
	first, _ := in.ReadString('\n')
	second, err := in.ReadString('\n')
	if err != nil || second != "heard x\n" {
		t.Fatalf("%q, %q, %v: %s", first, second, err, p.Said())
	}
	words := strings.Fields(first)
	return words[0], words[1], words[2]
}

func inNetns(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pod")
	if err := netns.New(path); errors.Is(err, unix.EPERM) {
		t.Skip("needs root")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Delete(path); err != nil {
			t.Error(err)
		}
	})
	return path
}

func TestOpenOnThisHost(t *testing.T) {
	path := inNetns(t)
	var want string
	if err := netns.Run(path, func() (err error) { want, err = os.Readlink("/proc/thread-self/ns/net"); return err }); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	p, err := Open(ctx, Spec{Kind: Host, Netns: path}, ownProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	interrupt() // the agent outlives it
	if got, _, interfaces := checkHello(t, p); got != want || interfaces != "1" {
		t.Errorf("the agent is in %s, not in %s, and sees %s interfaces in /sys", got, want, interfaces)
	}
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	if p.Said() != "an agent was here" {
		t.Errorf("it said %q", p.Said())
	}
	own, err := Open(t.Context(), Spec{Kind: Host}, ownProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := checkHello(t, own); got == want {
		t.Error("the host's own namespace is the other one")
	}
	if err := own.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	for netns, want := range map[string]string{
		"/run/netns/nobody-has-this": "ip netns list",
		"/proc/999999999/ns/net":     "is the process still there",
	} {
		_, err := Open(t.Context(), Spec{Kind: Host, Netns: netns}, ownProgram(t))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q in it", netns, err, want)
		}
	}
}

// A user who may not enter a network namespace gets an error that says what to do.
func TestOpenWithoutPermission(t *testing.T) {
	path := inNetns(t)
	for file, want := range map[string]string{path: "run it as root", os.DevNull: "needs root"} {
		refused := make(chan error)
		go func() {
			runtime.LockOSThread() // only this thread has another user, and it ends with the goroutine
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
				refused <- errno
				return
			}
			refused <- checkEnterable(file)
		}()
		if err := <-refused; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q in it", file, err, want)
		}
	}
}

// Close kills an agent that does not leave when its pipe is closed, and returns an error.
func TestCloseKillsWhoStays(t *testing.T) {
	command, err := Open(t.Context(), Spec{Kind: Host}, ownProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	checkHello(t, command)
	if _, err := fmt.Fprintln(command, "stay"); err != nil {
		t.Fatal(err)
	}
	command.patience = 20 * time.Millisecond
	if err := command.Close(); err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Error(err)
	}
}

// The end of a command is the end of the pipe, both ways.
func TestCommandEnds(t *testing.T) {
	p, err := hostMachine{}.startScript(t.Context(), "read line; echo \"$line\"; echo bye >&2")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(p, "hello")
	got, err := io.ReadAll(p)
	if string(got) != "hello\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := p.Close(); err != nil || p.Said() != "bye" {
		t.Errorf("%v, %q", err, p.Said())
	}
	if _, err := fmt.Fprintln(p, "more"); err == nil {
		t.Error("a command that has ended was written to")
	}
}

func TestTail(t *testing.T) {
	var said tail
	for range 3 {
		fmt.Fprint(&said, strings.Repeat("a", tailSize/2))
	}
	fmt.Fprintln(&said, "end")
	if got := said.String(); len(got) > tailSize || !strings.HasSuffix(got, "aend") {
		t.Errorf("%d bytes, ...%s", len(got), got[len(got)-10:])
	}
}
