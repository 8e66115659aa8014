//go:build lab

package e2e

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
)

// culvertd runs with the rights that docs/threat-model.md lists, and no more: the process
// has what its unit says.
func TestCulvertdIsConfined(t *testing.T) {
	n := nodes[0]
	leavesNothing(t, n)
	out, err := n.Script(t.Context(), "look at culvertd", `
		set +e +o pipefail
		pid=$(pidof culvertd)
		grep -E '^(CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/$pid/status | xargs -n 2
		awk '$5 == "/" { print "root", substr($6, 1, 2) } $5 == "/sys" { print "sys", substr($6, 1, 2) }' /proc/$pid/mountinfo | sort -u
		ls -A /proc/$pid/root/root /proc/$pid/root/home 2>&1 | grep -vE '^(/|$)' | wc -l
		test -e /proc/$pid/root/dev/mem && echo "it sees /dev/mem"
		stat -c '%n %A %U' /run/culvert/culvertd.sock /var/lib/culvert /var/lib/culvert/ledger.db /etc/culvert/host.yaml
		systemd-analyze security --no-pager --threshold=30 culvertd >/dev/null || echo "systemd-analyze security: above 3.0"`)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// 0x283004: DAC_READ_SEARCH 2, NET_ADMIN 12, NET_RAW 13, SYS_PTRACE 19, SYS_ADMIN 21.
	const want = `CapEff: 0000000000283004
CapBnd: 0000000000283004
CapAmb: 0000000000000000
NoNewPrivs: 1
Seccomp: 2
root ro
sys rw
0
/run/culvert/culvertd.sock srw------- root
/var/lib/culvert drwx------ root
/var/lib/culvert/ledger.db -rw------- root
/etc/culvert/host.yaml -rw-r--r-- root
`
	if got := string(out); got != want {
		t.Errorf("culvertd has:\n%s\nwant:\n%s", got, want)
	}
}

// Mounts and unmounts on the host reach the mount namespace of a running culvertd. So
// culvertd does not keep a netns alive that a runtime deletes.
func TestMountsReachCulvertd(t *testing.T) {
	n := nodes[0]
	leavesNothing(t, n)
	a := network(t, n, "late", "1.1.0", pool)
	netns(t, n, a.Netns)
	add(t, n, a)
	del(t, n, a)
	must(t, n, "ip", "netns", "delete", a.Netns)
	out, err := n.Script(t.Context(), "look at culvertd's mounts", `grep -c "netns/$1" /proc/$(pidof culvertd)/mountinfo || true`, a.Netns)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(out)); got != "0" {
		t.Errorf("culvertd has %s mounts of a netns that is deleted", got)
	}
}

// The mode of culvertd's socket keeps out users other than root. If the mode is wrong,
// culvertd refuses them by their user ID.
func TestOthersAreRefused(t *testing.T) {
	n := nodes[0]
	leavesNothing(t, n)
	const ask = `runuser -u nobody -- culvert status 2>&1; echo "exit $?"`
	for mode, says := range map[string]string{"600": "try sudo", "666": "only root may talk to culvertd"} {
		out, err := n.Script(t.Context(), "ask as nobody", `
			set +e
			trap 'chmod 600 /run/culvert/culvertd.sock' EXIT
			chmod "$1" /run/culvert/culvertd.sock
			`+ask, mode)
		if err != nil {
			t.Fatal(err)
		}
		mentions(t, string(out), says, "exit 1")
	}
}

// On a real node, too, culvertd refuses names that would be a path, a pattern or an
// option elsewhere. Nothing appears where they point.
func TestNamesAreNotPaths(t *testing.T) {
	n := nodes[0]
	leavesNothing(t, n)
	out, err := n.Script(t.Context(), "CNI by hand", `
		set +e +o pipefail
		mkfifo -m 600 /run/culvert-fifo
		trap 'rm -f /run/culvert-fifo' EXIT
		cni() { # CONTAINERID NETNS IFNAME CONFIG
			printf '%s' "$4" | CNI_COMMAND=ADD CNI_CONTAINERID="$1" CNI_NETNS="$2" CNI_IFNAME="$3" CNI_PATH=/opt/cni/bin timeout 60 /opt/cni/bin/culvert |
				jq -r '"\(.code) \(.msg)"'
		}
		config() { printf '{"cniVersion": "1.1.0", "name": "%s", "type": "culvert", "pool": "%s"%s}' "$1" "$2" "$3"; }
		good=$(config n intel.com/intel_sriov_netdevice '')
		cni ../../etc /run/netns/none net1 "$good"
		cni c1 /run/netns/../../etc/passwd net1 "$good"
		cni c1 /run/culvert-fifo net1 "$good"
		cni c1 /run/netns/none ../net1 "$good"
		cni c1 /run/netns/none net%d "$good"
		cni c1 /run/netns/none net1 "$(config ../n intel.com/intel_sriov_netdevice '')"
		cni c1 /run/netns/none net1 "$(config n ../../pool '')"
		cni c1 /proc/self/ns/net net1 "$(config n intel.com/intel_sriov_netdevice ', "logFile": "/run/culvert-log", "ipam": {"type": "static", "addresses": [{"address": "10.0.0.5/24"}], "resolvConf": "/etc/../root/.ssh/id"}')"
		ls /run/culvert-log 2>&1 | sed 's/^[^:]*: //'`)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	want := []string{"4 ", "4 ", "no network namespace", "4 ", "4 ", "7 ", "7 ", "below /etc", "No such file"}
	if len(lines) != len(want) {
		t.Fatalf("%d answers, want %d:\n%s", len(lines), len(want), out)
	}
	for i, w := range want {
		if !strings.Contains(lines[i], w) {
			t.Errorf("answer %d: %q has no %q", i+1, lines[i], w)
		}
	}
}

// The systemd unit lets culvertd open no IP socket. docs/operations.md has the file with which it
// serves metrics, at the loopback address alone.
func TestMetricsUnderTheUnit(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	override := regexp.MustCompile("(?s)```ini\n# (/\\S+)\n(.*?)```").FindSubmatch(page)
	if override == nil {
		t.Fatal("docs/operations.md has no block of ini that begins with the path of a file")
	}
	n := nodes[0]
	leavesNothing(t, n)
	t.Cleanup(func() {
		if out, err := n.Script(context.Background(), "take the metrics away", `
			rm -r "$(dirname "$1")"
			systemctl daemon-reload
			systemctl restart culvertd`, string(override[1])); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	if err := n.WriteFile(t.Context(), string(override[1]), override[2]); err != nil {
		t.Fatal(err)
	}
	out, err := n.Script(t.Context(), "read the metrics", `
		systemctl daemon-reload
		systemctl restart culvertd
		exec 3<>/dev/tcp/127.0.0.1/9810
		printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
		cat <&3`)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mentions(t, string(out), "200 OK", "\nculvert_ready 1\n", `culvert_vfs{kind="",pf="enp1s0",state="free"} 7`)
}

// The timer writes the metrics into the folder of node_exporter, which belongs to another user, under
// the confined unit. It is installed and not enabled, and the log has no line about its runs. The test
// takes more than 5 s, since the timer waits so long.
func TestMetricsTimer(t *testing.T) {
	n := nodes[0]
	leavesNothing(t, n)
	out, err := n.Script(t.Context(), "have the timer write the metrics", `
		folder=/var/lib/prometheus/node-exporter
		systemctl is-enabled culvert-metrics.timer || true
		[ ! -e "$folder" ]
		mkdir -p "$folder"
		chown nobody "$folder"
		trap 'systemctl disable --now --quiet culvert-metrics.timer; rm -r /var/lib/prometheus' EXIT
		systemctl enable --now --quiet culvert-metrics.timer
		for i in $(seq 300); do [ -e $folder/culvert.prom ] && break; sleep 0.1; done
		stat --format '%U %a' $folder/culvert.prom
		ls -A $folder
		grep culvert_vfs $folder/culvert.prom
		journalctl --quiet --unit culvert-metrics.service`)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mentions(t, string(out), "disabled\n", "root 644\nculvert.prom\n", `culvert_vfs{kind="",pf="enp1s0",state="free"} 7`)
	if strings.Contains(string(out), "Started") || strings.Contains(string(out), "Finished") {
		t.Errorf("the log has lines about each run:\n%s", out)
	}
}
