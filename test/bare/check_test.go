//go:build lab

package bare

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/test/labs"
)

// P20: a check of the playbooks on a fresh node says what they would change, and changes nothing.
// A node without Python is named. culvert doctor finds on the same node what it lacks, mends it, and
// then finds nothing.
func TestFreshNode(t *testing.T) {
	h := newHost(t, lab.Options{Name: labs.Name("bare")})
	a := newAnsible(t, h)
	for _, playbook := range []string{"node", "host"} {
		a.line(t, "ansible-playbook --syntax-check --inventory worker01, culvert_net.culvert."+playbook)
	}
	if c, out := a.play(t, "node", "--check"); c.changed > 0 || !strings.Contains(out, "Python is missing and would be installed") {
		t.Errorf("a check of a node without Python: %+v\n%s", c, out)
	}
	h.giveApt(t)
	h.givePython(t)
	h.sh(t, `dd if=/dev/zero of=/swapfile bs=1M count=8 status=none; chmod 600 /swapfile; mkswap /swapfile
		swapon /swapfile; echo '/swapfile none swap sw 0 0' >>/etc/fstab
		dpkg --purge --force-depends socat`)
	const state = `cat /etc/fstab /proc/swaps /proc/sys/net/ipv4/ip_forward; ls /etc/modules-load.d /etc/sysctl.d; ls -d /sys/module/br_netfilter 2>&1 || true`
	before := h.sh(t, state)
	args, changes := []string{"--check", "--diff", "--tags", "prepare"}, 4
	if testing.Short() { // each task takes seconds on an emulated processor
		args, changes = append(args, "--extra-vars", `{"culvert_node_points": ["swap", "modules"]}`), 2
	}
	if c, out := a.play(t, "node", args...); c.changed < changes {
		t.Errorf("a check of a fresh node would change %d things, want %d:\n%s", c.changed, changes, out)
	}
	if after := h.sh(t, state); after != before {
		t.Errorf("a check has changed the node: %s\nbefore: %s", after, before)
	}
	doctor(t, h)
}

// doctor lets culvert doctor prepare the node, and looks at the outcome.
func doctor(t *testing.T, h host) {
	h.copyTo(t, top+"/build/bin/culvert", "/usr/local/bin/culvert")
	const examine = `culvert doctor --role kubernetes -o json `
	if out, exit := h.try(t, examine); exit != 1 {
		t.Errorf("a host that is not prepared: exit status %d\n%s", exit, out)
	}
	out, _ := h.try(t, examine+"--fix 2>/dev/null")
	var r api.DoctorReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	done := map[string]bool{}
	for _, repair := range r.Repairs {
		done[repair.What] = repair.Done
		if !repair.Done || repair.Undo == "" {
			t.Errorf("%+v", repair)
		}
	}
	for _, what := range []string{"turn swap off", "install socat", "load module br_netfilter", "set net.ipv4.ip_forward to 1"} {
		if !done[what] {
			t.Errorf("the doctor did not %s: %v", what, done)
		}
	}
	for _, f := range r.Findings {
		if f.Check == "kubernetes" && (f.Severity == api.SeverityWarning || f.Severity == api.SeverityError) {
			t.Errorf("after the repairs: %s", f.What)
		}
	}
	mentions(t, h.sh(t, "cat /etc/fstab; socat -V; wc -l </proc/swaps"), "#culvert-doctor: /swapfile", "socat version")
}
