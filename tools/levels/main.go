// Command levels runs the jobs of `make test`, as many at the same time as the machine has room
// for. At the end it prints the slowest tests, the commands that repeat the failed tests, and one
// line that names the jobs that passed and failed. If a job fails, only the jobs that need it do
// not run.
//
//	tools/run levels             every job of `make test`
//	tools/run levels lab unit    the jobs of two levels, and the jobs that these need
//	tools/run levels -full       every job, with the tests that take minutes, for `make soak`
//
// Command levels prints the output of one job as it arrives. It prints the output of each other job
// later, in one piece; until then the output is in build/log. tools/watch runs each job: it fails a
// job that leaves processes behind, and Ctrl-C ends all processes of all jobs.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/culvert-net/culvert/tools/gotest/outcome"
)

const logs = "build/log"

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	full := flag.Bool("full", false, "run the tests that take minutes, too")
	flag.Parse()
	all := shortJobs(jobs)
	if *full {
		all = fullJobs(jobs)
	}
	status, err := runLevels(all, flag.Args(), signals)
	if err != nil {
		fmt.Fprintln(os.Stderr, "levels:", err)
		status = 1
	}
	os.Exit(status)
}

func runLevels(all []job, levels []string, signals <-chan os.Signal) (int, error) {
	chosen, err := chooseJobs(all, levels)
	if err != nil {
		return 1, err
	}
	if err := removeOld(chosen); err != nil {
		return 1, err
	}
	here, err := measureRoom()
	if err != nil {
		return 1, err
	}
	plan, err := newSchedule(chosen, here)
	if err != nil {
		return 1, err
	}
	every := 10 * time.Second
	if info, err := os.Stdout.Stat(); err == nil && info.Mode()&fs.ModeCharDevice != 0 {
		every = 2 * time.Second
	}
	before, err := readCPUTime()
	if err != nil {
		return 1, err
	}
	r := &runner{plan: plan, meter: newMeter(), show: &show{out: os.Stdout, dir: logs, every: every, now: time.Now}, ended: make(chan end), start: startJob}
	if sig := r.runJobs(signals); sig != 0 {
		return 128 + int(sig), nil
	}
	tests, err := outcome.ReadFolder(logs)
	if err != nil {
		return 1, err
	}
	outcome.Report(os.Stdout, tests, 5)
	if after, err := readCPUTime(); err == nil {
		fmt.Println(describeBusy(after.Since(before), runtime.NumCPU()))
	}
	fmt.Println(r.meter.describeTimes())
	line, ok := r.finalVerdict()
	fmt.Println(line)
	if !ok {
		return 1, nil
	}
	return 0, nil
}

// removeOld removes the files of an earlier run, which would otherwise count as results of this
// run.
func removeOld(chosen []job) error {
	files, err := filepath.Glob(filepath.Join(logs, "*"+outcome.Extension))
	if err != nil {
		return err
	}
	for _, j := range chosen {
		files = append(files, filepath.Join(logs, j.name+".log"))
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.MkdirAll(logs, 0o755)
}

// smallest is the room that levels assumes at least, on any machine.
var smallest = room{slots: 2, nodes: 4}

// measureRoom counts one slot for each core. It reserves 6 GiB of memory for compilers and a
// control plane, and counts a node for each 2.5 GiB of the rest.
func measureRoom() (room, error) {
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return room{}, fmt.Errorf("ask how much memory there is: %w", err)
	}
	return roomFor(runtime.NumCPU(), int(info.Totalram*uint64(info.Unit)>>20)), nil
}

func roomFor(cores, mib int) room {
	return room{slots: max(smallest.slots, cores), nodes: max(smallest.nodes, (mib-6<<10)/(2<<10+512))}
}

// startJob starts a job. The messages of tools/watch itself go to said; the job's output is in
// its log.
func startJob(j job, said io.Writer) (*exec.Cmd, error) {
	argv := append([]string{"-n", strconv.Itoa(j.nice), "tools/watch", j.name}, j.argv...)
	cmd := exec.Command("nice", argv...) //nolint:noctx // a signal ends it gently, see runner
	cmd.Env = append(os.Environ(), jobVariable+"="+j.name)
	cmd.Stderr = said
	return cmd, cmd.Start()
}
