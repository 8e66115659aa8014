package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// superviseCommand is the argument by which the shim executes itself as the supervisor of one
	// plugin. Runtimes give no argument.
	superviseCommand = "supervise"
	// reportFD is where a supervisor writes why it could not run the plugin, or could not kill it.
	reportFD = 3
	// killBound is how long a supervisor tries to kill what a plugin has started. The plugin's next
	// processes are looked for after killWait.
	killBound = 5 * time.Second
	killWait  = time.Millisecond
	// mostListed is how many processes that survive a report lists.
	mostListed = 10
	// A program that is being installed cannot be run for a moment.
	busyTries, busyWait = 20, 50 * time.Millisecond
	// statusKilled is the status of a supervisor that could not run the plugin, or killed it.
	statusKilled = 1
)

// supervise runs a plugin with the supervisor's own input and output, and returns its exit status.
// On SIGTERM, which the kernel sends if the shim dies, it kills the plugin and all processes that
// descend from it. The supervisor is their subreaper: a process whose parent ends becomes its
// child, even if that process has a process group or a session of its own. Each plugin has a
// supervisor of its own, so that plugins which run at once do not share one.
func supervise(program string, environ []string) int {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	syscall.CloseOnExec(reportFD)
	report := os.NewFile(reportFD, "report")
	plugin, err := startPlugin(program, environ)
	if err != nil {
		fmt.Fprintf(report, "run CNI plugin %s: %v", program, err)
		return statusKilled
	}
	exited, gone := reapChildren(plugin.Pid)
	select {
	case status := <-exited:
		return status
	case <-ended:
	}
	if err := killAll(plugin.Pid, gone, time.After(killBound)); err != nil {
		fmt.Fprintf(report, "CNI plugin %s did not end in time, and %v", program, err)
	}
	return statusKilled
}

// startPlugin starts a program in a process group of its own. The program dies with the supervisor.
func startPlugin(program string, environ []string) (*os.Process, error) {
	const prSetChildSubreaper = 36 // linux/prctl.h
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		return nil, fmt.Errorf("prctl PR_SET_CHILD_SUBREAPER: %w", errno)
	}
	attr := &os.ProcAttr{
		Env: environ, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	for try := 1; ; try++ {
		p, err := os.StartProcess(program, []string{program}, attr)
		if !errors.Is(err, syscall.ETXTBSY) || try == busyTries {
			return p, err
		}
		time.Sleep(busyWait)
	}
}

// reapChildren waits for all children of the supervisor. exited gets the exit status of the
// plugin; gone is closed when the supervisor has no child any more.
func reapChildren(plugin int) (exited <-chan int, gone <-chan struct{}) {
	status, none := make(chan int, 1), make(chan struct{})
	go func() {
		defer close(none)
		for {
			var w syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &w, 0, nil)
			switch {
			case errors.Is(err, syscall.EINTR):
			case err != nil:
				return
			case pid == plugin && w.Signaled():
				status <- 128 + int(w.Signal()) // as shells do
			case pid == plugin:
				status <- w.ExitStatus()
			}
		}
	}()
	return status, none
}

// killAll kills the plugin's process group and all descendants of the supervisor until gone is
// closed. Then none is left, since orphans become children of the supervisor. It gives up when late
// fires.
func killAll(plugin int, gone <-chan struct{}, late <-chan time.Time) error {
	_ = syscall.Kill(-plugin, syscall.SIGKILL) // at once; killBelow finds those that are left
	for {
		killBelow(os.Getpid())
		select {
		case <-gone:
			return nil
		case <-late:
			left := descendantsOf(os.Getpid())
			return fmt.Errorf("%d processes that it started survive SIGKILL: PIDs %s", len(left), strings.Trim(fmt.Sprint(left[:min(len(left), mostListed)]), "[]"))
		case <-time.After(killWait):
		}
	}
}

// killBelow kills the descendants of a process. It stops each before it looks for the next ones, so
// that few start meanwhile.
func killBelow(parent int) {
	for _, pid := range childrenOf(parent) {
		p, err := os.FindProcess(pid) // holds a pidfd, so that a signal reaches no later process of that number
		if err != nil || !isChildOf(pid, parent, os.Getpid()) {
			continue
		}
		if p.Signal(syscall.SIGSTOP) == nil {
			killBelow(pid)
			_ = p.Kill() // a process that has ended meanwhile needs none
		}
		_ = p.Release()
	}
}

// descendantsOf returns the children of a process, and theirs.
func descendantsOf(pid int) (out []int) {
	for _, child := range childrenOf(pid) {
		out = append(append(out, child), descendantsOf(child)...)
	}
	return out
}

// childrenOf returns the children of all threads of a process (proc(5), task/TID/children).
func childrenOf(pid int) (out []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is right
	for _, file := range files {
		text, _ := os.ReadFile(file) // a thread that has ended has none
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

// isChildOf reports whether a process is a child of one of the parents (proc(5), stat).
func isChildOf(pid int, parents ...int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // state, parent
	if err != nil || len(fields) < 2 {
		return false
	}
	parent, err := strconv.Atoi(fields[1])
	return err == nil && slices.Contains(parents, parent)
}
