//go:build kubernetes

package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/test/soak"
)

// attempt is a command that succeeds only with a certain right.
type attempt struct{ name, command string }

// needed are attempts at actions that culvertd needs, by the means that it uses.
var needed = []attempt{
	{"write sysfs", `f=/sys/class/net/enp1s0/device/sriov_drivers_autoprobe; cat $f >$f`},
	{"write a sysctl", `f=/host/proc/sys/net/ipv6/conf/lo/disable_ipv6; cat $f >$f`},
	{"enter a netns of a process", `nsenter --net=/host/proc/$KUBELET/ns/net ip link show enp1s0`},
	{"list the files that a process has open", `readlink /host/proc/$KUBELET/fd/0`},
	{"load and pin an eBPF program", `/run/culvert/bpf.test -test.v -test.run TestPinned | grep -- "--- PASS"`},
}

// attacks are attempts at actions that culvertd does not need.
var attacks = []attempt{
	{"load a module", `insmod /run/culvert/attack.ko`},
	{"make a device node", `rm -f /run/culvert/node; mknod /run/culvert/node b 254 0`},
	{"read physical memory", `head -c 1 /dev/mem`},
	{"see a process of the host", `test "$(cat /proc/$KUBELET/comm)" = kubelet`},
	{"signal a process of the host", `kill -0 $KUBELET`},
	{"write to a process of the host", `f=/host/proc/$KUBELET/oom_score_adj; cat $f >$f`},
	{"trigger sysrq", `echo h >/host/proc/sysrq-trigger`},
	{"write a sysctl that is not the network's", `f=/host/proc/sys/kernel/core_pattern; cat $f >$f`},
	{"write a sysctl where the runtime masks it", `f=/proc/sys/kernel/panic; cat $f >$f`},
	{"write to the root", `touch /attack`},
	{"change an owner", `touch /run/culvert/owned; chown 7 /run/culvert/owned`},
	{"write what is another user's", `echo x >/run/culvert/others`},
	{"become another user", `socat -u /dev/null,setuid=7 STDOUT`},
	{"change the root", `chroot / true`},
	{"set the clock", `! date -s "$(date '+%F %T')" 2>&1 | grep "can't"`},
	{"bind a privileged port", `timeout 10 socat -u TCP-LISTEN:81 STDOUT; test $? -ge 124`},
}

// prober starts a pod that makes attempts with a shell. It has the rights of the DaemonSet's
// container, which change may alter.
func prober(t *testing.T, name string, change func(spec, container map[string]any)) {
	t.Helper()
	var set struct {
		Spec struct {
			Template struct {
				Spec map[string]any `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	if err := k8s.Get(context.Background(), &set, "daemonset", "culvertd", "--namespace", cluster.Namespace); err != nil {
		t.Fatal(err)
	}
	spec := set.Spec.Template.Spec
	container := spec["containers"].([]any)[0].(map[string]any)
	container["image"], container["imagePullPolicy"] = "docker.io/centos/tools:latest", "Never"
	container["command"] = []string{"sleep", "infinity"}
	delete(container, "args")
	delete(container, "readinessProbe")
	delete(spec, "initContainers")
	spec["nodeName"], spec["terminationGracePeriodSeconds"] = "worker01", 0
	if change != nil {
		change(spec, container)
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "namespace": cluster.Namespace}, "spec": spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, string(body))
	ready(t, "pod/"+name, "--namespace", cluster.Namespace)
}

// try makes attempts in a prober, each in a subshell of one exec, since an exec takes long. It
// returns the output of each that failed, by name.
func try(t *testing.T, pod string, all []attempt) map[string]string {
	t.Helper()
	script := "KUBELET=" + strings.TrimSpace(on(t, "worker01", "pgrep -x kubelet")) + "\n"
	end := func(i int) string { return fmt.Sprintf("\nattempt %d exits ", i) }
	for i, a := range all {
		script += fmt.Sprintf("(%s) 2>&1 </dev/null; printf '%%s%%d\n' '%s' $?\n", a.command, end(i))
	}
	rest := kubectl(t, "--namespace", cluster.Namespace, "exec", pod, "--", "sh", "-c", script)
	failed := map[string]string{}
	for i, a := range all {
		said, after, ended := strings.Cut(rest, end(i))
		if !ended {
			t.Fatalf("in pod %s the attempt to %s did not end: %s", pod, a.name, rest)
		}
		var status string
		if status, rest, _ = strings.Cut(after, "\n"); status != "0" {
			failed[a.name] = strings.TrimSpace(said) + ", exit status " + status
		}
	}
	return failed
}

// culvertd has five capabilities, the runtime's seccomp profile, and no more of the host
// than it needs; each attack succeeds in a container that is privileged. AppArmor is on in
// the node: without the DaemonSet's profile culvertd could not work.
func TestI10DaemonSetIsConfined(t *testing.T) {
	need(t, twoNodes)
	for _, node := range twoNodes.names {
		if got := on(t, node, rights); got != wantRights {
			t.Errorf("on %s culvertd has:\n%s\nwant:\n%s", node, got, wantRights)
		}
	}
	if testing.Short() {
		return // make soak makes the pods that try what these rights allow
	}
	setStage(t)
	prober(t, "confined", nil)
	for name, said := range try(t, "confined", needed) {
		t.Errorf("with culvertd's rights a container cannot %s: %s", name, said)
	}
	refused := try(t, "confined", attacks)
	for _, a := range attacks {
		if said, ok := refused[a.name]; !ok {
			t.Errorf("with culvertd's rights a container can %s", a.name)
		} else {
			t.Logf("%s: %s", a.name, said)
		}
	}

	prober(t, "privileged", func(spec, container map[string]any) {
		spec["hostPID"] = true
		spec["securityContext"] = map[string]any{"runAsUser": 0}
		container["securityContext"] = map[string]any{"privileged": true}
		for _, m := range container["volumeMounts"].([]any) {
			delete(m.(map[string]any), "readOnly")
		}
	})
	for name, said := range try(t, "privileged", attacks) {
		t.Errorf("the attack proves nothing: a privileged container cannot %s: %s", name, said)
	}

	prober(t, "apparmor", func(_, container map[string]any) {
		delete(container["securityContext"].(map[string]any), "appArmorProfile")
	})
	if _, failed := try(t, "apparmor", needed[:1])["write sysfs"]; !failed {
		t.Error("the runtime's AppArmor profile lets a container write to /sys: is AppArmor on?")
	}
}

// rights prints what the kernel shows of culvertd's rights on a node, and whether AppArmor
// confines other pods there.
const rights = `
	pid=$(pgrep -x culvertd)
	grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|Seccomp):' /proc/$pid/status | xargs -n 2
	echo "AppArmor $(cat /sys/module/apparmor/parameters/enabled) $(cat /proc/$pid/attr/current)"
	echo "PID namespaces $(grep NSpid /proc/$pid/status | xargs -n 1 | tail -n +2 | wc -l)"
	awk '$5 == "/" || $5 == "/sys" || $5 == "/host/proc" || $5 == "/host/proc/sys/net" { print $5, substr($6, 1, 2) }' /proc/$pid/mountinfo | sort
	grep -q cri-containerd /sys/kernel/security/apparmor/profiles && echo "the runtime has a profile for others"`

// 0x283004: DAC_READ_SEARCH 2, NET_ADMIN 12, NET_RAW 13, SYS_PTRACE 19, SYS_ADMIN 21.
const wantRights = `CapInh: 0000000000000000
CapPrm: 0000000000283004
CapEff: 0000000000283004
CapBnd: 0000000000283004
CapAmb: 0000000000000000
Seccomp: 2
AppArmor Y unconfined
PID namespaces 2
/ ro
/host/proc ro
/host/proc/sys/net rw
/sys rw
the runtime has a profile for others
`

// setStage puts the files that attempts need into a folder of the node that is mounted in the
// prober.
func setStage(t *testing.T) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "bpf.test")
	build := exec.Command("tools/go", "test", "-c", "-o", program, "./internal/kernel/bpf")
	build.Dir, build.Env = top, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := k8s.Lab.Copy(context.Background(), "worker01", program, "/run/culvert/bpf.test"); err != nil {
		t.Fatal(err)
	}
	on(t, "worker01", `
		cp "$(modinfo -n dummy)" /run/culvert/attack.ko
		echo x >/run/culvert/others; chmod 644 /run/culvert/others; chown 7 /run/culvert/others`)
	t.Cleanup(func() {
		on(t, "worker01", `
			if grep -q ^dummy /proc/modules; then rmmod dummy; fi
			rm -f /run/culvert/{bpf.test,attack.ko,others,owned,node}`)
	})
}

// The systemd unit's filters of system calls and its capabilities let culvertd load eBPF
// programs, as the rights of the DaemonSet do.
func TestI10UnitLoadsEBPF(t *testing.T) {
	soak.Only(t, "the unit is tried in a container once more; test/e2e tests the unit itself")
	need(t, twoNodes)
	setStage(t)
	unit, err := os.ReadFile(top + "/internal/admin/install/files/culvertd.service")
	if err != nil {
		t.Fatal(err)
	}
	var probe strings.Builder
	for line := range strings.Lines(string(unit)) {
		key, _, _ := strings.Cut(line, "=")
		switch key {
		case "ExecStart":
			line = "ExecStart=/var/lib/culvert/bpf.test -test.v -test.run TestPinned\n"
		case "Type":
			line = "Type=oneshot\n"
		case "Restart", "RestartSec", "RuntimeDirectory", "Wants":
			continue
		}
		probe.WriteString(line)
	}
	out := on(t, "worker01", fmt.Sprintf(`
		cat >/run/systemd/system/probe.service <<-'END'
		%s
		END
		install -m 755 /run/culvert/bpf.test /var/lib/culvert/bpf.test
		systemctl daemon-reload
		systemctl start probe || true
		journalctl --sync
		journalctl --unit probe --output cat --no-pager
		rm /run/systemd/system/probe.service /var/lib/culvert/bpf.test
		systemctl daemon-reload`, probe.String()))
	if !strings.Contains(out, "--- PASS: TestPinned") {
		t.Errorf("under the systemd unit:\n%s", out)
	}
}
