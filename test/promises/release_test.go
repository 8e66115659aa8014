//go:build lab

package promises

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/lab/demo/node"
	"github.com/culvert-net/culvert/test/releases"
	"github.com/culvert-net/culvert/test/soak"
)

// TestReleaseOnAHost verifies, installs, upgrades and removes on a lab node the files of two releases
// that are for hosts, by the commands of docs/install.md: the Debian packages, then the archive. A
// container keeps its VF and its address through each upgrade. A removal leaves no file but those that
// the page names.
func TestReleaseOnAHost(t *testing.T) {
	soak.Only(t, "two releases, and ten packages on an emulated node")
	made, signers := releases.MakeTwo(t, top, "")
	h := &releasedHost{node: host(t, 2)}
	h.prepare(t)
	for _, dir := range made {
		h.carry(t, dir, signers)
	}
	t.Run("packages", h.followPackages)
	t.Run("archive", h.followArchive)
}

// releasedHost is a host whose user has the folders of releases: /root/v0.1.0 and so on.
type releasedHost struct {
	node     node.Node
	versions []string
	files    []string // of the host before the first installation
}

// prepare gives the host CNI plugins and a network for containers, and makes a network namespace.
func (h *releasedHost) prepare(t *testing.T) {
	parts, err := node.FindParts(t.Context(), top, func(s string) { t.Log(s) })
	if err != nil {
		t.Fatal(err)
	}
	if err := h.node.Lab.Copy(t.Context(), h.node.Name, parts.CNI, "/opt/cni/bin"); err != nil {
		t.Fatal(err)
	}
	if err := h.node.WriteFile(t.Context(), "/etc/cni/net.d/10-storage.conflist", fromPage(t, "docs/install.md", "json", `"storage"`)); err != nil {
		t.Fatal(err)
	}
	h.run(t, "ip netns add try; rm -f /usr/sbin/policy-rc.d # it starts no service")
	h.files = h.listFiles(t)
}

func (h *releasedHost) run(t *testing.T, script string) string {
	t.Helper()
	out, err := h.node.Script(t.Context(), "script", script)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// carry copies those files of a release to the host that are for hosts, and verifies them there by
// the command of the page.
func (h *releasedHost) carry(t *testing.T, dir, signers string) {
	t.Helper()
	version, files := filepath.Base(dir), t.TempDir()
	var wanted []string
	for _, pattern := range []string{"*.deb", "*.tar.gz", "SHA256SUMS*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s has no %s: %v", dir, pattern, err)
		}
		wanted = append(wanted, found...)
	}
	for _, file := range append(wanted, signers) {
		if err := os.Link(file, filepath.Join(files, filepath.Base(file))); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.node.Lab.Copy(t.Context(), h.node.Name, files, "/root/"+version); err != nil {
		t.Fatal(err)
	}
	h.versions = append(h.versions, version)
	page, err := os.ReadFile(filepath.Join(top, "docs/install.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := Commands(string(page))
	verifies := slices.IndexFunc(all, func(c string) bool { return strings.HasPrefix(c, "ssh-keygen -Y verify ") })
	if verifies < 0 {
		t.Fatal("docs/install.md has no command that verifies a release")
	}
	mentions(t, "verify "+version, h.run(t, "cd /root/"+version+"; "+all[verifies]), `Good "file" signature for culvert`, `culvert_[0-9.]+_amd64\.deb: OK`, `linux-amd64\.tar\.gz: OK`)
}

// followPackages follows the page with the Debian packages. dpkg stands for apt, and culvert-lab does
// not get the QEMU that it depends on.
func (h *releasedHost) followPackages(t *testing.T) {
	const apt = `apt-get() { dpkg --force-depends "--$1" "${@:2}"; }
`
	kept := ""
	for _, version := range h.versions {
		in := apt + "cd /root/" + version
		followSentences(t, h.node, map[string]step{
			"apt-get install ./culvert_*_amd64.deb": {before: in, prints: []string{"Setting up culvert "}},
			"apt-get install ./culvert-*_amd64.deb": {before: in, prints: []string{"Setting up culvert-bench ", "Setting up culvert-esxi ", "Unpacking culvert-lab "}},
		})
		for _, program := range []string{"bench", "esxi", "lab"} {
			mentions(t, program, h.run(t, "culvert "+program+" --version"), version)
		}
		kept = h.checkLease(t, version, kept)
	}
	h.endLease(t)
	followSentences(t, h.node, map[string]step{
		"apt-get purge culvert culvert-bench culvert-esxi culvert-lab": {before: apt, prints: []string{"Purging configuration files for culvert "}},
	})
	h.wantLeft(t)
}

// followArchive follows the page with the archive.
func (h *releasedHost) followArchive(t *testing.T) {
	kept := ""
	for i, version := range h.versions {
		in := "cd /root/" + version
		followSentences(t, h.node, map[string]step{
			"tar -xzf culvert-*-linux-amd64.tar.gz":              {before: in},
			"cd culvert-*-linux-amd64 && ./culvert host install": {before: in, prints: []string{`(?m)^ *[+~] /usr/local/bin/culvertd`}},
		})
		if i == 0 {
			h.run(t, "systemctl enable --now culvertd")
		} else {
			h.run(t, "systemctl restart culvertd")
		}
		kept = h.checkLease(t, version, kept)
	}
	h.endLease(t)
	h.run(t, "culvert host uninstall")
	h.wantLeft(t, "/etc/culvert", "/etc/culvert/host.yaml", "/var/lib/culvert")
}

// checkLease fails the test unless culvertd of a version runs, and the container has its lease. It
// returns what the container has, which must be what it had. Without a lease of before it first makes
// VFs and gives one to the container.
func (h *releasedHost) checkLease(t *testing.T, version, kept string) string {
	t.Helper()
	if kept == "" {
		h.run(t, `printf 'pfs:\n- {name: enp1s0, vfs: max}\npools:\n- name: fast\n  selectors: {pfNames: [enp1s0]}\n' >/etc/culvert/host.yaml
			systemctl restart culvertd
			`+awaitHealth+`
			CNI_PATH=/opt/cni/bin NETCONFPATH=/etc/cni/net.d /opt/cni/bin/cnitool add storage /run/netns/try`)
	}
	mentions(t, "the daemon of "+version, h.run(t, awaitHealth+`
		systemctl is-enabled culvertd
		systemctl is-active culvertd
		/proc/$(systemctl show --property MainPID --value culvertd)/exe --version
		culvert vf list`), `^enabled\nactive\n`, `culvertd version `+regexp.QuoteMeta(version)+`\n`, `attached +.*storage +172\.16\.91\.`)
	has := h.run(t, `ip -n try -o address | grep 172\.16\.91; ip -n try -o link | grep -o 'ether [0-9a-f:]*'`)
	if kept != "" && has != kept {
		t.Errorf("the container had %s and has after the upgrade to %s %s", kept, version, has)
	}
	return has
}

// endLease takes the VF back.
func (h *releasedHost) endLease(t *testing.T) {
	t.Helper()
	h.run(t, "CNI_PATH=/opt/cni/bin NETCONFPATH=/etc/cni/net.d /opt/cni/bin/cnitool del storage /run/netns/try")
}

// wantLeft fails the test unless the removal left these files and what is below them, and no others. It
// removes them.
func (h *releasedHost) wantLeft(t *testing.T, want ...string) {
	t.Helper()
	if out, err := h.node.Run(t.Context(), "pgrep", "-l", "culvert"); err == nil {
		t.Errorf("the removal leaves %s", out)
	}
	for _, file := range h.listFiles(t) {
		below := slices.ContainsFunc(want, func(w string) bool { return file == w || strings.HasPrefix(file, w+"/") })
		if _, was := slices.BinarySearch(h.files, file); !was && !below {
			t.Errorf("the removal leaves %s", file)
		}
	}
	for _, file := range want {
		h.run(t, "ls -d "+file)
	}
	h.run(t, "rm -rf /etc/culvert /var/lib/culvert")
}

// listFiles returns the files of the host, sorted. It leaves out those of a kernel, logs, dpkg's records
// and what libcni keeps.
func (h *releasedHost) listFiles(t *testing.T) []string {
	t.Helper()
	out := h.run(t, `find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /root -o -path /var/log -o -path /var/cache \
		-o -path /var/tmp -o -path /var/lib/dpkg -o -path /var/lib/cni \) -prune -o -print`)
	var all []string
	for line := range bytes.Lines([]byte(out)) {
		all = append(all, strings.TrimSuffix(string(line), "\n"))
	}
	slices.Sort(all)
	return all
}
