package install

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var completions = map[string][]byte{"bash": []byte("for bash"), "zsh": []byte("for zsh"), "fish": []byte("for fish")}

// built returns a folder of programs.
func built(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"culvert", "culvertd", "culvert-cni", "culvert-hook", "culvert-bench"} {
		write(t, dir, name, name+" "+version, 0o755)
	}
	return dir
}

func write(t *testing.T, root, name, body string, mode fs.FileMode) {
	t.Helper()
	at := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(body), mode); err != nil {
		t.Fatal(err)
	}
}

// host returns a root as a distribution makes it, with more files.
func host(t *testing.T, others map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"etc", "usr/local/bin", "usr/local/lib", "usr/local/share/man", "opt"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, body := range others {
		write(t, root, name, body, 0o644)
	}
	return root
}

// tree returns all entries below a root: the mode, and the content or target.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, at)
		switch {
		case d.IsDir():
			got[name] = info.Mode().String()
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(at)
			got[name] = "-> " + to
			return err
		default:
			body, err := os.ReadFile(at)
			got[name] = info.Mode().String() + " " + string(body)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func on(root string, out *bytes.Buffer) Host {
	return Host{Root: root, Prefix: "/usr/local", Parts: Parts(), Out: out}
}

var (
	runtimes = map[string]string{"opt/cni/bin/sriov": "somebody's", "opt/cni/bin/bridge": "the project's", "etc/cni/net.d/10-flannel.conflist": "{}"}
	libvirt  = map[string]string{"etc/libvirt/libvirtd.conf": "", "etc/libvirt/hooks/qemu": "a person's", "usr/lib/systemd/system/libvirtd.service": ""}
)

// After Culvert is uninstalled, a host is as it was before, with each kind of files that it
// may have.
func TestHostIsAsFound(t *testing.T) {
	for name, others := range map[string]map[string]string{
		"plain":             {},
		"container runtime": runtimes,
		"libvirt":           libvirt,
		"another plugin of ours, half-made": {
			"opt/cni/bin/bridge": "b", "etc/cni/net.d/10-flannel.conflist": "{}",
		},
		"a host.yaml that a person wrote": {"etc/culvert/host.yaml": "pfs: []\n"},
		"neighbours below our folders": {
			"usr/local/libexec/other": "", "usr/local/share/zsh/site-functions/_other": "", "usr/local/lib/systemd/system/other.service": "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, from := host(t, others), built(t, "1")
			before := tree(t, root)
			var out bytes.Buffer
			h := on(root, &out)
			if err := h.Install(t.Context(), from, completions); err != nil {
				t.Fatal(err)
			}
			installed := tree(t, root)
			out.Reset()
			if err := h.Install(t.Context(), from, completions); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(installed, tree(t, root)); diff != "" {
				t.Errorf("a second install changes: -first +second:\n%s", diff)
			}
			for line := range strings.Lines(out.String()) {
				if strings.HasPrefix(line, signNew) || strings.HasPrefix(line, signOther) {
					t.Errorf("a second install says %q", line)
				}
			}
			write(t, root, "usr/local/bin/.culvertd-123.tmp", "half", 0o600) // a crash
			for range 2 {
				if err := h.Uninstall(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(before, tree(t, root)); diff != "" {
				t.Errorf("-before +after:\n%s", diff)
			}
		})
	}
}

// TestWhatGoesWhere installs all parts on a host that has container runtimes and libvirt,
// under a strict umask.
func TestWhatGoesWhere(t *testing.T) {
	old := syscall.Umask(0o077)
	root, from := t.TempDir(), built(t, "1")
	for _, dir := range []string{"opt/cni/bin", "etc/libvirt"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, root, "opt/cni/bin/sriov", "somebody's", 0o700)
	var out bytes.Buffer
	h := on(root, &out)
	h.Prefix = "/usr"
	err := h.Install(t.Context(), from, completions)
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"usr/bin/culvert": "-rwxr-xr-x culvert 1", "usr/bin/kubectl-culvert": "-> culvert", "usr/bin/kubectl_complete-culvert": "-> culvert",
		"usr/bin/culvertd": "-rwxr-xr-x culvertd 1", "usr/libexec/culvert/culvert-cni": "-rwxr-xr-x culvert-cni 1",
		"usr/libexec/culvert/culvert-hook": "-rwxr-xr-x culvert-hook 1", "usr/bin/culvert-bench": "-rwxr-xr-x culvert-bench 1",
		"opt/cni/bin/culvert": "-rwxr-xr-x culvert-cni 1", "opt/cni/bin/sriov": "-> culvert", "opt/cni/bin/sriov.before-culvert": "-rwx------ somebody's",
		"etc/libvirt/hooks/qemu.d/culvert":                 "-rwxr-xr-x culvert-hook 1",
		"etc/libvirt/hooks/network.d/culvert":              "-rwxr-xr-x culvert-hook 1",
		"usr/share/bash-completion/completions/culvert":    "-rw-r--r-- for bash",
		"usr/share/zsh/site-functions/_culvert":            "-rw-r--r-- for zsh",
		"usr/share/fish/vendor_completions.d/culvert.fish": "-rw-r--r-- for fish",
		"etc/culvert/host.yaml":                            "-rw-r--r-- " + string(hostYAML),
		"usr/lib/systemd/system/culvertd.service":          "-rw-r--r-- " + strings.ReplaceAll(unitText, "/usr/local/", "/usr/"),
		"usr/lib/systemd/system/culvert-metrics.service":   "-rw-r--r-- " + strings.ReplaceAll(metricsText, "/usr/local/", "/usr/"),
		"usr/lib/systemd/system/culvert-metrics.timer":     "-rw-r--r-- " + metricsTimerText,
	}
	got := tree(t, root)
	for name, is := range got {
		if strings.HasPrefix(is, "d") {
			made := !strings.HasPrefix(name, "opt") && name != "." && name != "etc" && name != "etc/libvirt"
			if made && is != "drwxr-xr-x" {
				t.Errorf("folder %s is %s", name, is)
			}
			delete(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !strings.Contains(unitText, "ExecStart=/usr/local/bin/culvertd\n") {
		t.Error("the unit does not start /usr/local/bin/culvertd, which the prefix stands in for")
	}
}

// An upgrade replaces programs and keeps files that a person edited.
func TestUpgrade(t *testing.T) {
	root := host(t, runtimes)
	var out bytes.Buffer
	h := on(root, &out)
	if err := h.Install(t.Context(), built(t, "1"), completions); err != nil {
		t.Fatal(err)
	}
	write(t, root, "etc/culvert/host.yaml", "pools: []\n", 0o644)
	out.Reset()
	if err := h.Install(t.Context(), built(t, "2"), completions); err != nil {
		t.Fatal(err)
	}
	got := tree(t, root)
	for name, want := range map[string]string{
		"usr/local/bin/culvertd": "-rwxr-xr-x culvertd 2", "opt/cni/bin/culvert": "-rwxr-xr-x culvert-cni 2",
		"opt/cni/bin/sriov.before-culvert": "-rw-r--r-- somebody's", "etc/culvert/host.yaml": "-rw-r--r-- pools: []\n",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	for _, line := range []string{"~ /usr/local/bin/culvertd\n", "= /etc/culvert/host.yaml stays as it is\n", "= /usr/local/bin/kubectl-culvert -> culvert\n", "~ /opt/cni/bin/culvert\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("it does not say %q:\n%s", line, &out)
		}
	}
	if err := h.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, root); got["etc/culvert/host.yaml"] != "-rw-r--r-- pools: []\n" || got["opt/cni/bin/sriov"] != "-rw-r--r-- somebody's" {
		t.Errorf("uninstall leaves %v", got)
	}
	if !strings.Contains(out.String(), "left: /etc/culvert/host.yaml") {
		t.Errorf("it does not say what is left:\n%s", &out)
	}
}

// libvirt was installed later than Culvert: then the installed programs install the missing
// parts.
func TestInstallFromWhatIsInstalled(t *testing.T) {
	root := host(t, nil)
	var out bytes.Buffer
	h := on(root, &out)
	if err := h.Install(t.Context(), built(t, "1"), completions); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"no CNI plugin: there is no /opt/cni or /etc/cni here", "no hook of libvirt: there is no /etc/libvirt here"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("it does not say %q:\n%s", line, &out)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "opt/cni")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a host without container runtimes has a CNI folder now (%v)", err)
	}
	write(t, root, "etc/libvirt/libvirtd.conf", "", 0o644)
	h.Parts = []Part{CNI, Libvirt}
	if err := h.Install(t.Context(), filepath.Join(root, "usr/local/bin"), nil); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, root)["etc/libvirt/hooks/qemu.d/culvert"]; got != "-rwxr-xr-x culvert-hook 1" {
		t.Errorf("the hook is %q", got)
	}
	if err := h.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := tree(t, root)
	if _, hook := got["etc/libvirt/hooks/qemu.d"]; hook || got["usr/local/bin/culvertd"] == "" {
		t.Errorf("uninstall of the hook alone leaves %v", got)
	}
}

func TestDryRun(t *testing.T) {
	root, from := host(t, runtimes), built(t, "1")
	before := tree(t, root)
	var would, did bytes.Buffer
	dry := on(root, &would)
	dry.DryRun = true
	if err := dry.Install(t.Context(), from, completions); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, tree(t, root)); diff != "" {
		t.Errorf("a dry run changed: -before +after:\n%s", diff)
	}
	if err := on(root, &did).Install(t.Context(), from, completions); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(did.String(), would.String()); diff != "" {
		t.Errorf("-done +said before:\n%s", diff)
	}
	installed := tree(t, root)
	would.Reset()
	did.Reset()
	if err := dry.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(installed, tree(t, root)); diff != "" {
		t.Errorf("a dry run removed: -before +after:\n%s", diff)
	}
	for _, line := range []string{"- /usr/local/bin/culvertd\n", "~ /opt/cni/bin/sriov is again what it was before\n", "- /opt/cni/bin/culvert\n"} {
		if !strings.Contains(would.String(), line) {
			t.Errorf("it does not say %q:\n%s", line, &would)
		}
	}
}

// An installation that cannot be completed changes nothing.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(h *Host, from string)
		want  string
	}{
		"no program":      {func(_ *Host, from string) { os.Remove(filepath.Join(from, "culvertd")) }, "there is no program culvertd in"},
		"no bench":        {func(_ *Host, from string) { os.Remove(filepath.Join(from, "culvert-bench")) }, "there is no program culvert-bench in"},
		"no plugin":       {func(_ *Host, from string) { os.Remove(filepath.Join(from, "culvert-cni")) }, "there is no program culvert-cni in"},
		"not executable":  {func(_ *Host, from string) { os.Chmod(filepath.Join(from, "culvert"), 0o644) }, "there is no program culvert in"},
		"relative prefix": {func(h *Host, _ string) { h.Prefix = "usr" }, `prefix "usr": want a folder such as /usr/local`},
		"root as prefix":  {func(h *Host, _ string) { h.Prefix = "/usr/" }, `prefix "/usr/"`},
		"unknown part":    {func(h *Host, _ string) { h.Parts = []Part{"hook"} }, `part "hook": want some of programs, bench, cni, libvirt`},
	} {
		t.Run(name, func(t *testing.T) {
			root, from := host(t, runtimes), built(t, "1")
			before := tree(t, root)
			h := on(root, &bytes.Buffer{})
			c.spoil(&h, from)
			err := h.Install(t.Context(), from, completions)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if diff := cmp.Diff(before, tree(t, root)); diff != "" {
				t.Errorf("-before +after:\n%s", diff)
			}
		})
	}
}

// Uninstall removes the network configuration that culvertd wrote, and the results that a runtime
// keeps of it: with either, the runtime would look for a plugin that is gone.
func TestUninstallTakesWhatCulvertdPut(t *testing.T) {
	root := host(t, map[string]string{
		"opt/cni/bin/culvert": "ours", "opt/cni/bin/sriov.before-culvert": "somebody's",
		"etc/cni/net.d/00-culvert.conflist": "ours", "etc/cni/net.d/10-flannel.conflist": "theirs",
		"var/lib/cni/results/cbr0-1-eth0": `{"config":"eyJuYW1lIjoiY2JyMCIsInBsdWdpbnMiOlt7InR5cGUiOiJjdWx2ZXJ0IiwicG9kTmV0d29ya3MiOnRydWV9XX0="}`,
		"var/lib/cni/results/cbr0-2-eth0": "theirs",
	})
	if err := os.Symlink("culvert", filepath.Join(root, "opt/cni/bin/sriov")); err != nil {
		t.Fatal(err)
	}
	if err := on(root, &bytes.Buffer{}).Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := tree(t, root)
	for name, want := range map[string]string{
		"opt/cni/bin/culvert": "", "opt/cni/bin/sriov.before-culvert": "", "opt/cni/bin/sriov": "-rw-r--r-- somebody's",
		"etc/cni/net.d/00-culvert.conflist": "", "etc/cni/net.d/10-flannel.conflist": "-rw-r--r-- theirs",
		"var/lib/cni/results/cbr0-1-eth0": "", "var/lib/cni/results/cbr0-2-eth0": "-rw-r--r-- theirs",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

// Install and Uninstall make systemd reload its units, and start no unit that did not run.
func TestSystemd(t *testing.T) {
	for name, c := range map[string]struct {
		active bool
		parts  []Part
		want   []string
		says   string
	}{
		"new":     {false, Parts(), []string{"daemon-reload", "is-active --quiet culvertd.service", "--quiet disable --now culvert-metrics.timer", "is-active --quiet culvertd.service", "--quiet disable culvertd.service", "daemon-reload"}, "systemctl enable --now culvertd"},
		"running": {true, Parts(), []string{"daemon-reload", "is-active --quiet culvertd.service", "--quiet disable --now culvert-metrics.timer", "is-active --quiet culvertd.service", "stop culvertd.service", "--quiet disable culvertd.service", "daemon-reload"}, "until: systemctl restart culvertd"},
		"a hook":  {true, []Part{Libvirt}, nil, "libvirt runs the hook after: systemctl restart libvirtd"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			var asked []string
			h := on(host(t, libvirt), &out)
			h.Parts = c.parts
			h.Systemctl = func(_ context.Context, args ...string) error {
				asked = append(asked, strings.Join(args, " "))
				if args[0] == "is-active" && !c.active {
					return errors.New("inactive")
				}
				return nil
			}
			if err := h.Install(t.Context(), built(t, "1"), completions); err != nil {
				t.Fatal(err)
			}
			if err := h.Uninstall(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, asked); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !strings.Contains(out.String(), c.says) {
				t.Errorf("it does not say %q:\n%s", c.says, &out)
			}
		})
	}
}

// At boot culvertd has made the VFs before the services that start guests and pods by
// themselves (P14).
func TestBootOrder(t *testing.T) {
	before := map[string]bool{}
	for line := range strings.Lines(unitText) {
		if list, ok := strings.CutPrefix(strings.TrimSpace(line), "Before="); ok {
			for _, u := range strings.Fields(list) {
				before[u] = true
			}
		}
	}
	for _, u := range []string{
		"libvirtd.service", "virtqemud.service", "virtnetworkd.service", "libvirt-guests.service",
		"kubelet.service", "k3s.service", "podman-restart.service",
		"pve-guests.service", "incus.service", "incus-startup.service", "lxd.service", "snap.lxd.daemon.service",
		"neutron-sriov-nic-agent.service", "neutron-sriov-agent.service",
	} {
		if !before[u] {
			t.Errorf("the unit is not ordered before %s", u)
		}
	}
	for _, line := range []string{"Type=notify\n", "WantedBy=multi-user.target\n"} { // a unit that is ready has made the VFs
		if !strings.Contains(unitText, line) {
			t.Errorf("the unit does not say %s", line)
		}
	}
}

// TestUnit makes systemd read the installed unit, beside units that are ordered as libvirt's
// are.
func TestUnit(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze here")
	}
	root := t.TempDir()
	h := on("/", &bytes.Buffer{})
	h.Parts, h.Prefix = []Part{Programs}, filepath.Join(root, "usr")
	h.Root = "/"
	files, err := h.wantedFiles(built(t, "1"), completions)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.keep {
			continue // a file of /etc
		}
		if _, err := h.putFile(f); err != nil {
			t.Fatal(err)
		}
	}
	units := filepath.Join(root, "usr/lib/systemd/system")
	arguments := []string{"verify", "--man=no", "--generators=no", filepath.Join(units, unit)}
	for name, after := range map[string]string{
		"virtqemud.service": "network.target", "virtnetworkd.service": "network.target", "libvirt-guests.service": "virtqemud.service",
		"pve-guests.service": "network-online.target", "incus.service": "network-online.target", "snap.lxd.daemon.service": "network-online.target",
		"neutron-sriov-nic-agent.service": "network.target",
	} {
		write(t, units, name, "[Unit]\nAfter="+after+"\n[Service]\nExecStart=/bin/true\n", 0o644)
		arguments = append(arguments, filepath.Join(units, name))
	}
	cmd := exec.CommandContext(t.Context(), verify, arguments...)
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+units+":")
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "culvertd.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestUninstallTakesPinnedPrograms: Uninstall removes the eBPF programs that culvertd pinned,
// and keeps those of other software. A dry run removes nothing.
func TestUninstallTakesPinnedPrograms(t *testing.T) {
	root := host(t, map[string]string{"sys/fs/bpf/culvert/connect4": "ours", "sys/fs/bpf/cilium/x": "theirs"})
	dry, out := on(root, &bytes.Buffer{}), &bytes.Buffer{}
	dry.DryRun, dry.Out = true, out
	if err := dry.Uninstall(t.Context()); err != nil || !strings.Contains(out.String(), "/sys/fs/bpf/culvert") || tree(t, root)["sys/fs/bpf/culvert/connect4"] == "" {
		t.Errorf("dry run: %v, it says %q", err, out)
	}
	if err := on(root, &bytes.Buffer{}).Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := tree(t, root)
	if got["sys/fs/bpf/culvert/connect4"] != "" || got["sys/fs/bpf/cilium/x"] == "" {
		t.Errorf("left are %v", got)
	}
}

// The unit of the metrics can write only the folder of node_exporter, has no network, and no other
// unit waits for it or starts it but its timer.
func TestMetricsUnitIsConfined(t *testing.T) {
	for _, line := range []string{
		"ExecStart=/usr/local/bin/culvert metrics --file /var/lib/prometheus/node-exporter/culvert.prom", "ReadWritePaths=-/var/lib/prometheus/node-exporter",
		"ProtectSystem=strict", "PrivateNetwork=yes", "RestrictAddressFamilies=AF_UNIX", "CapabilityBoundingSet=CAP_DAC_OVERRIDE", "NoNewPrivileges=yes",
	} {
		if !strings.Contains(metricsText, "\n"+line+"\n") {
			t.Errorf("the unit lacks %s", line)
		}
	}
	for _, word := range []string{"Requires=", "Wants=", "BindsTo=", "Before=", "WantedBy="} {
		if strings.Contains(metricsText, word) {
			t.Errorf("the unit has %s", word)
		}
	}
	if strings.Contains(unitText, "culvert-metrics") {
		t.Error("culvertd's unit names that of the metrics")
	}
}
