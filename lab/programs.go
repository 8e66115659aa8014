package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/screen"
)

// A Program runs on the host, in the lab's network namespace, until it or the lab is ended. It is
// for software that runs beside the nodes. It has the address 192.168.77.1, and reaches the nodes
// by their addresses. Its output is in the run folder, in NAME.log.
type Program struct {
	Name string   `json:"name"`
	Argv []string `json:"argv,omitempty"`
	Env  []string `json:"env,omitempty"` // besides PATH and HOME

	PID   int    `json:"pid,omitempty"`   // in a [Status]: 0 when it does not run
	Ended string `json:"ended,omitempty"` // in a [Status]: how, if it ended by itself
}

// Run starts a program. To start a program again, its Name is enough.
func (l *Lab) Run(ctx context.Context, p Program) error {
	return l.sendRequest(ctx, request{Op: "run", Program: &p})
}

// End kills a program and the processes that it started, and waits until they have ended.
func (l *Lab) End(ctx context.Context, name string) error {
	return l.sendRequest(ctx, request{Op: "end", Program: &Program{Name: name}})
}

// ProgramLog returns the path of the file with a program's output.
func (l *Lab) ProgramLog(name string) string { return l.paths.programLogPath(name) }

// Folder returns a folder for files that shall live as long as the lab, which is removed with the
// lab.
func (l *Lab) Folder() string { return l.paths.disks }

// programs has the programs of a lab, by name.
type programs struct {
	mu  sync.Mutex // guards all
	all map[string]*program
}

type program struct {
	Program
	process process
	ended   chan struct{} // closed when it does not run
}

func (p *programs) runProgram(want Program, log string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.all[want.Name]
	switch {
	case old != nil && old.PID != 0:
		return fmt.Errorf("run %s: it runs already, as process %d", want.Name, old.PID)
	case old != nil && len(want.Argv) == 0:
		want.Argv, want.Env = old.Argv, old.Env
	case !validName.MatchString(want.Name) || len(want.Argv) == 0:
		return fmt.Errorf("run %q: want a name of lower-case letters, digits and dashes, and a command", want.Name)
	}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("run %s: %w", want.Name, err)
	}
	defer out.Close()
	next := &program{Program: want, ended: make(chan struct{})}
	next.Ended = ""
	if err := p.startProgram(next, out); err != nil {
		return fmt.Errorf("run %s: %w", want.Name, err)
	}
	if p.all == nil {
		p.all = make(map[string]*program)
	}
	p.all[want.Name] = next
	return nil
}

// startProgram starts a program, which notes its own end. The caller holds the lock.
func (p *programs) startProgram(next *program, out io.Writer) error {
	cmd := exec.Command(next.Argv[0], next.Argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", out, out
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}, next.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	started := make(chan error, 1)
	onThread(func() {
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		err = cmd.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if next.PID, next.Ended = 0, "exit status 0"; err != nil {
			next.Ended = err.Error()
		}
		close(next.ended)
	})
	if err := <-started; err != nil {
		return err
	}
	var err error
	next.PID = cmd.Process.Pid
	if next.process, err = findProcess(next.PID); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (p *programs) endProgram(name string) error {
	p.mu.Lock()
	one := p.all[name]
	p.mu.Unlock()
	if one == nil {
		return fmt.Errorf("end %s: there is no such program; there are %s", name, strings.Join(p.programNames(), ", "))
	}
	if one.process.isAlive() {
		_ = unix.Kill(-one.process.PID, unix.SIGKILL) // it leads a group of its own
	}
	if err := one.process.killAndWait(unix.SIGKILL, 10*time.Second); err != nil {
		return fmt.Errorf("end %s: %w", name, err)
	}
	<-one.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	one.Ended = ""
	return nil
}

func (p *programs) endAll() error {
	var errs []error
	for _, name := range p.programNames() {
		errs = append(errs, p.endProgram(name))
	}
	return errors.Join(errs...)
}

func (p *programs) programNames() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.all))
}

// listPrograms returns the programs by name, without their commands.
func (p *programs) listPrograms() []Program {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Program
	for _, one := range p.all {
		out = append(out, Program{Name: one.Name, PID: one.PID, Ended: one.Ended})
	}
	slices.SortFunc(out, func(a, b Program) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// drawPrograms returns programs for people.
func drawPrograms(all []Program, look screen.Look) string {
	if len(all) == 0 {
		return ""
	}
	var words []string
	for _, p := range all {
		state := fmt.Sprint(p.PID)
		if p.PID == 0 {
			state = strings.TrimSpace("(off) " + p.Ended)
		}
		words = append(words, p.Name+" "+state)
	}
	return "\n" + hang("beside them  ", strings.Join(words, ", "), look)
}
