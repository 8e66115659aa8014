package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/conduct"
	"github.com/culvert-net/culvert/test/promises"
)

// actsAsVM is the variable by which this program's agent takes a veth for a VF, as an ESXi host gives it
// to a virtual machine.
const actsAsVM = "CULVERT_BENCH_TEST_VM"

// vfDriver writes what the agent says, with the driver of a VF in place of a veth's.
type vfDriver struct{ io.Writer }

func (d vfDriver) Write(text []byte) (int, error) {
	_, err := d.Writer.Write(bytes.ReplaceAll(text, []byte(`"driver":"veth"`), []byte(`"driver":"iavf"`)))
	return len(text), err
}

// ssh takes the place of OpenSSH's client. The machines vm1, vm2 and vm3 are network namespaces with a
// hostname of their own, and esxi01 is a host whose esxcli sets a port down or up.
const ssh = `#!/bin/sh
while [ "$1" != -- ] && [ "$1" != root@esxi01 ]; do shift; done
[ "$1" = -- ] && shift
name=${1#root@}; shift
if [ "$name" = esxi01 ]; then
	case "$*" in
	"esxcli network nic down -n vmnic2") state=down ;;
	"esxcli network nic up -n vmnic2") state=up ;;
	*) echo "esxi01: $*: not found" >&2; exit 127 ;;
	esac
	echo "$state" >>PULLED
	ip -n PREFIXesxi01 link set vm1 "$state"
	exec ip -n PREFIXesxi01 link set vm2 "$state"
fi
export CULVERT_BENCH_TEST_VM=1
exec nsenter --net=/run/netns/PREFIX"$name" unshare --uts --mount sh -c 'hostname "$0"; mount -t sysfs -o ro sysfs /sys; exec sh -c "$1"' "$name" "$*"
`

// vms makes the virtual machines vm1, vm2 and vm3, whose VFs a bridge in a network namespace joins, and a
// program ssh that reaches them. It returns the file that lists what was done to the cable.
func vms(t *testing.T) (pulled string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	ip := func(argv string) {
		t.Helper()
		if out, err := exec.Command("ip", strings.Fields(argv)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", argv, err, out)
		}
	}
	prefix := fmt.Sprintf("cvesxi%d-", os.Getpid())
	for _, name := range []string{"esxi01", "vm1", "vm2", "vm3"} {
		ip("netns add " + prefix + name)
		t.Cleanup(func() { ip("netns del " + prefix + name) })
		ip("-n " + prefix + name + " link set lo up")
	}
	host := "-n " + prefix + "esxi01 "
	ip(host + "link add br0 type bridge")
	ip(host + "link set br0 up")
	for i, vm := range []string{"vm1", "vm2", "vm3"} {
		ip(fmt.Sprintf("%slink add name %s type veth peer name ens224 netns %s%s", host, vm, prefix, vm))
		ip(host + "link set " + vm + " master br0 up")
		ip(fmt.Sprintf("-n %s%s addr add 10.95.0.%d/24 dev ens224", prefix, vm, i+1))
		ip("-n " + prefix + vm + " link set ens224 up")
	}
	bin := t.TempDir()
	pulled = filepath.Join(bin, "pulled")
	script := strings.NewReplacer("PREFIX", prefix, "PULLED", pulled).Replace(ssh)
	if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return pulled
}

// TestPageMeasures runs the commands of docs/esxi.md that measure, in a short form, between virtual machines
// that ssh reaches. m7 and m8 find the path that their reports had. m9 pulls the cable by the page's
// command, the traffic stops for as long as it is pulled, and comes again.
func TestPageMeasures(t *testing.T) {
	page, err := os.ReadFile("../../docs/esxi.md")
	if err != nil {
		t.Fatal(err)
	}
	pulled := vms(t)
	t.Chdir(t.TempDir())
	ran := map[string]int{}
	for _, command := range promises.Commands(string(page)) {
		line, isRun := strings.CutPrefix(command, "culvert bench run ")
		if !isRun || !strings.Contains(line, "ssh:") {
			continue
		}
		preset := strings.Fields(line)[0]
		if preset == "m9" && !strings.Contains(line, "--pull") { // no person is at a terminal
			if _, err := runLine(t, line); err == nil || !strings.Contains(err.Error(), "m9 pulls the cable while traffic runs, and nothing pulls it here: give the commands that do it (--pull and --plug), or run it on a terminal") {
				t.Errorf("%s: %v", command, err)
			}
			ran["by hand"]++
			continue
		}
		r := runShort(t, line)
		ran[preset]++
		where := map[string]string{"m7": "other PF", "m8": "same PF", "m9": "other PF"}[preset]
		if p := r.Arms[0].Path; len(r.Arms) != 1 || p.Place != where || p.Network != "VF" || !strings.HasPrefix(p.From.PF, "esxi01/vmnic") || len(r.Counted(0)) == 0 {
			t.Errorf("%s: %d arms, %+v", command, len(r.Arms), p)
		}
		if preset == "m9" {
			checkStopped(t, r, pulled)
		}
	}
	if ran["m7"] == 0 || ran["m8"] == 0 || ran["m9"] == 0 || ran["by hand"] == 0 {
		t.Errorf("the page has %v", ran)
	}
}

// runShort runs a command line in a short form, and again if all runs are void: the processors may be busy.
func runShort(t *testing.T, line string) (r bench.Result) {
	t.Helper()
	var out string
	var err error
	for range 5 {
		if out, err = runLine(t, line+" --quick --rough --repeats 1 --out result.json"); err == nil {
			return openResult(t, "result.json")
		}
	}
	t.Fatalf("%s: %v\n%s", line, err, out)
	return r
}

// runLine runs culvert bench run with the words of a command line, as a shell reads them.
func runLine(t *testing.T, line string) (string, error) {
	t.Helper()
	words, err := exec.CommandContext(t.Context(), "bash", "-c", "printf '%s\\n' run "+line).Output()
	if err != nil {
		t.Fatal(err)
	}
	return execute(t, strings.Split(strings.TrimSuffix(string(words), "\n"), "\n")...)
}

func openResult(t *testing.T, name string) bench.Result {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := bench.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkStopped: the cable is out for 2 of the 10 s of a short run, and so long nothing arrives, or somewhat
// longer, since TCP waits before it tries again.
func checkStopped(t *testing.T, r bench.Result, pulled string) {
	t.Helper()
	if text, err := os.ReadFile(pulled); err != nil || !strings.HasSuffix(string(text), "down\nup\n") {
		t.Errorf("the cable was %q, %v", text, err)
	}
	said := strings.Join(r.Notes, "\n")
	if !strings.Contains(said, "Gb/s before the cable was pulled, 0 while it was, ") || !strings.Contains(said, "; nothing arrived for ") {
		t.Errorf("notes: %s", said)
	}
	for _, run := range r.Counted(0) {
		_, stopped, after := conduct.Pulled(run)
		if stopped < 1.8 || stopped > 6 || after <= 0 {
			t.Errorf("nothing arrived for %g s, and then %g Gb/s", stopped, after)
		}
	}
}
