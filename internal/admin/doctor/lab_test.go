//go:build lab

package doctor_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/admin/doctor"
	"github.com/culvert-net/culvert/internal/api"
)

// nodeScript prepares a fast node, with VFs that culvertd makes, a container with one of them,
// files of another manager and a peer on the same wire. Then it runs the doctor. Each report is one
// JSON document on standard output. At last the node is asked as if it were a guest.
const nodeScript = `set -e
exec 3>&1 >&2
mkdir -p /etc/culvert /etc/systemd/network
cat >/etc/culvert/host.yaml <<END
pfs:
- {name: eth0, vfs: 3, mtu: 4000}
pools:
- {name: vms, deviceType: vfio-pci, selectors: {pfNames: ["eth0#2"]}}
- {name: fast}
END
printf '[Match]\nDriver=igb\n[Link]\nSR-IOVVirtualFunctions=5\n' >/etc/systemd/network/10-pf.link
culvertd &
until culvert status -o json | grep '"ready": true' >/dev/null; do usleep 200000; done
until [ "$(cat /sys/class/net/eth0/carrier)" = 1 ]; do usleep 200000; done # a new MTU takes the link down
culvert status -o json >&3
culvert doctor -o json >&3 || echo "$?" >&3
echo 0 >/proc/sys/net/ipv4/ip_forward
mkdir -p /usr/local/bin && ln -s /bin/true /usr/local/bin/kubelet
ip addr add 10.7.0.1/24 dev eth0
ip netns add peer && ip link set eth1 netns peer && ip -n peer link set eth1 up && ip -n peer addr add 10.7.0.2/24 dev eth1
until ip netns exec peer ping -c 1 -W 1 10.7.0.1; do :; done
culvert doctor --fix --peer 10.7.0.2 -o json >&3 || echo "$?" >&3
cat /proc/sys/net/ipv4/ip_forward /sys/module/br_netfilter/refcnt /etc/sysctl.d/* /etc/modules-load.d/* >&3
echo inside: >&3
ip link set "$(ls /sys/class/net/eth0/device/virtfn0/net)" up
busybox sh /inside >&3
`

// runNode runs nodeScript in a fast node, and returns its output and its messages.
func runNode(t *testing.T) (out *bytes.Buffer, messages string) {
	t.Helper()
	culvert := os.Getenv("CULVERT")
	if culvert == "" {
		t.Fatal("CULVERT is not set: make build && CULVERT=$PWD/build/bin/culvert go test -tags lab ./internal/admin/doctor")
	}
	inside := filepath.Join(t.TempDir(), "inside")
	if err := os.WriteFile(inside, []byte(doctor.InsideScript), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	out = new(bytes.Buffer)
	cmd := exec.CommandContext(t.Context(), culvert, "lab", "fast", "--quiet",
		"--file", culvert+":/usr/bin/culvert", "--file", filepath.Join(filepath.Dir(culvert), "culvertd")+":/usr/bin/culvertd",
		"--file", inside+":/inside", "--", "sh", "-c", nodeScript)
	cmd.Stdout, cmd.Stderr = out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, said.String(), out.String())
	}
	return out, said.String()
}

// TestDoctorInNode runs the real program in a node with two igb PFs.
func TestDoctorInNode(t *testing.T) {
	out, messages := runNode(t)
	dec := json.NewDecoder(out)
	var st api.NodeStatus
	var first, second api.DoctorReport
	var exits [2]int
	for _, into := range []any{&st, &first, &exits[0], &second, &exits[1]} {
		if err := dec.Decode(into); err != nil {
			t.Fatalf("%v\n%s", err, messages)
		}
	}
	if diff := cmp.Diff([2]int{1, 1}, exits); diff != "" {
		t.Errorf("exit status (-want +got):\n%s", diff)
	}
	const claim = "udev sets sriov_numvfs to 5 (SR-IOVVirtualFunctions=5), /etc/systemd/network/10-pf.link:4"
	var problems []string
	for _, p := range st.Problems {
		problems = append(problems, p.Object)
		if p.Object == "PF eth0 and udev" && !strings.HasPrefix(p.Reason, claim) {
			t.Errorf("status: %s", p.Reason)
		}
	}
	if diff := cmp.Diff([]string{"PF eth0 and udev"}, problems); diff != "" {
		t.Errorf("problems of culvert status (-want +got):\n%s", diff)
	}
	expect(t, "with culvertd", first, []string{
		"ok sriov NIC eth0: it can have 7 VFs (0000:01:00.0, driver igb), and has 3",
		"ok sriov NIC eth1: it can have 7 VFs (0000:02:00.0, driver igb), and has 0",
		"ok link PF eth0: up, 1000 Mb/s",
		"ok mtu PF eth0: MTU 4000, as /etc/culvert/host.yaml:2 wants it",
		"ok modules host: igbvf, which drives VFs of igb, is loaded",
		"ok modules host: vfio-pci is loaded",
		"error claims PF eth0: " + claim,
		"note claims PF eth1: " + claim,
		"warning culvertd culvertd: it runs, and reports 1 problem",
		"note kubernetes host: not a Kubernetes node: not checked",
	})
	expect(t, "with --fix and --peer", second, []string{
		"note queues PF eth0: one receive queue each: 2 VFs on the host (igbvf)",
		"ok kubernetes host: swap, modules, forwarding and SELinux are as a node needs them",
	})
	path := false
	for _, f := range second.Findings {
		path = path || f.Check == "path" && f.Severity == api.SeverityError && strings.Contains(f.What, "get through eth0, not of 4000")
	}
	if !path {
		t.Error("a peer of MTU 1500 takes 4000 bytes")
	}
	if first.Repairs != nil {
		t.Errorf("repairs without --fix: %v", first.Repairs)
	}
	judgeRepairs(t, second.Repairs, messages)
	rest, err := bytesAfter(dec, out)
	rest, inside, _ := strings.Cut(rest, "inside:\n")
	if err != nil || !strings.HasPrefix(rest, "1\n") || !strings.Contains(rest, "net.ipv4.ip_forward = 1") || !strings.Contains(rest, "br_netfilter") {
		t.Errorf("after the repairs: %v\n%s", err, rest)
	}
	judgeInside(t, inside)
}

// judgeRepairs checks that the doctor announced each repair, made it, and can undo it.
func judgeRepairs(t *testing.T, repairs []api.Repair, messages string) {
	t.Helper()
	if len(repairs) == 0 {
		t.Error("no repairs with --fix")
	}
	for _, r := range repairs {
		if !strings.Contains(messages, "will "+r.What+"\n") {
			t.Errorf("%s: done without being said before:\n%s", r.What, messages)
		}
		if !r.Done || r.Undo == "" || r.Error != "" {
			t.Errorf("repair: %+v", r)
		}
	}
}

// judgeInside reads what InsideScript prints in the node: busybox's shell, a VF with its driver, and
// the interrupts of a real kernel. The VF has the MTU of its PF.
func judgeInside(t *testing.T, text string) {
	t.Helper()
	in := doctor.ParseInside(text)
	at := slices.IndexFunc(in.Interfaces, func(i doctor.InsideInterface) bool { return i.Driver == "igbvf" })
	if in.Err != "" || in.Kernel != "Linux" || len(in.CPUs) != 1 || at < 0 {
		t.Fatalf("%+v from\n%s", in, text)
	}
	if vf := in.Interfaces[at]; vf.MTU != 4000 || vf.RxQueues != 1 || vf.MAC.IsZero() || len(vf.IRQs) == 0 || !slices.Equal(vf.IRQs[0], []int{0}) {
		t.Errorf("%+v from\n%s", vf, text)
	}
}

func bytesAfter(dec *json.Decoder, out *bytes.Buffer) (string, error) {
	var b bytes.Buffer
	_, err := b.ReadFrom(dec.Buffered())
	return strings.TrimLeft(b.String()+out.String(), "\n"), err
}

func expect(t *testing.T, when string, r api.DoctorReport, want []string) {
	t.Helper()
	var got []string
	for _, f := range r.Findings {
		got = append(got, string(f.Severity)+" "+f.Check+" "+f.Object+": "+f.What)
	}
	all := "\n" + strings.Join(got, "\n") + "\n"
	for _, w := range want {
		if !strings.Contains(all, "\n"+w+"\n") {
			t.Errorf("%s: no %q in%s", when, w, all)
		}
	}
}
