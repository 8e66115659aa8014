package claims

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"
)

// seed adds the files of the archives whose names have one of the endings.
func seed(f *testing.F, endings ...string) {
	f.Helper()
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		f.Fatal(archives, err)
	}
	for _, name := range archives {
		a, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			for _, e := range endings {
				if strings.HasSuffix(file.Name, e) || e == "network/" && strings.HasPrefix(file.Name, "etc/network/") {
					f.Add(file.Data)
				}
			}
		}
	}
}

// check fails the test unless the claims of a file, for any text, are about lines of the file,
// quote them in one line, and name devices that exist.
func check(t *testing.T, root fstest.MapFS, text []byte) {
	t.Helper()
	rules, err := Read(root)
	if err != nil && len(text) <= maxFile {
		t.Fatal(err)
	}
	lines := strings.Count(string(text), "\n") + 1
	for _, c := range rules.On(host()) {
		switch {
		case c.PF != "" && c.PF != "enp1s0f0" && c.PF != "enp1s0f1":
			t.Errorf("no such PF: %+v", c)
		case c.Line < 0 || c.Line > lines:
			t.Errorf("no such line: %+v", c)
		case strings.ContainsAny(c.Says, "\n\r"):
			t.Errorf("more than a line: %+v", c)
		}
		for _, h := range c.HandOver {
			if strings.ContainsAny(h, "\n\r\x1b") {
				t.Errorf("control characters in a command: %q", h)
			}
		}
	}
}

func FuzzNetworkd(f *testing.F) {
	seed(f, ".network", ".link")
	f.Fuzz(func(t *testing.T, text []byte) {
		check(t, fstest.MapFS{
			"run/systemd/netif/state":       {},
			"etc/systemd/network/a.network": {Data: text},
			"etc/systemd/network/a.link":    {Data: text},
		}, text)
	})
}

func FuzzNetworkManager(f *testing.F) {
	seed(f, ".nmconnection", ".conf")
	f.Fuzz(func(t *testing.T, text []byte) {
		check(t, fstest.MapFS{
			"run/NetworkManager/devices":                           {Mode: os.ModeDir},
			"etc/NetworkManager/conf.d/a.conf":                     {Data: text},
			"etc/NetworkManager/system-connections/a.nmconnection": {Data: text},
		}, text)
	})
}

func FuzzNetplan(f *testing.F) {
	seed(f, ".yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		check(t, fstest.MapFS{"etc/netplan/a.yaml": {Data: text}}, text)
	})
}

func FuzzInterfaces(f *testing.F) {
	seed(f, "network/")
	f.Fuzz(func(t *testing.T, text []byte) {
		check(t, fstest.MapFS{"run/network": {Mode: os.ModeDir}, "etc/network/interfaces": {Data: text}}, text)
	})
}

func FuzzByHand(f *testing.F) {
	seed(f, ".rules", ".service", "sysfs.conf", "rc.local", "vfs.conf", "igb.conf", "cmdline", "grub", ".sh", "ifup-local")
	f.Fuzz(func(t *testing.T, text []byte) {
		root := fstest.MapFS{
			"run/NetworkManager/devices":             {Mode: os.ModeDir},
			"etc/udev/rules.d/b.rules":               {Data: []byte(`KERNEL=="enp1s0f0", RUN+="/opt/a %k 4"`)},
			"opt/a":                                  {Data: text},
			"var/spool/cron/root":                    {Data: text},
			"etc/driverctl.d/0000:01:10.0":           {Data: text},
			"etc/systemd/system/a@.service":          {Data: text},
			"etc/systemd/system/x.wants/a@b.service": {},
		}
		for _, name := range []string{
			"etc/udev/rules.d/a.rules", "etc/modprobe.d/a.conf", "etc/rc.local", "etc/systemd/system/a.service", "etc/tmpfiles.d/a.conf",
			"etc/sysfs.conf", "etc/crontab", "proc/cmdline", "etc/dpdk/interfaces", "etc/init.d/a", "run/udev/data/n1",
		} {
			root[name] = &fstest.MapFile{Data: text}
		}
		check(t, root, text)
	})
}

func FuzzIfcfg(f *testing.F) {
	seed(f, "ifcfg-enp1s0f0", "ifcfg-enp1s0f0v1")
	f.Fuzz(func(t *testing.T, text []byte) {
		check(t, fstest.MapFS{
			"run/NetworkManager/devices":                   {Mode: os.ModeDir},
			"etc/sysconfig/network-scripts/ifup-eth":       {},
			"etc/sysconfig/network-scripts/ifcfg-enp1s0f0": {Data: text},
		}, text)
	})
}

func FuzzYAMLFiles(f *testing.F) {
	seed(f, "sriov_config.yaml")
	f.Add([]byte("devices:\n  eth0: {type: nic, nictype: sriov, parent: enp1s0f0}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		check(t, fstest.MapFS{"etc/os-net-config/config.yaml": {Data: text}, "var/lib/incus/containers/a/backup.yaml": {Data: text}}, text)
	})
}

// FuzzShell: any line is split into commands whose words have a bounded number of values.
func FuzzShell(f *testing.F) {
	f.Add(`for i in $(seq 0 3) {1..4} "a b"; do ip link set "$NIC" vf ${i:-3} mac 'x' >> /a/$i <<< 4 2>&1 & done # end`)
	f.Add("case $1 in a|b) x=`y` ;; esac; A=(1 2); for ((i=0;i<4;i++)); do echo \\$i | tee /b; done <<-EOF")
	f.Fuzz(func(t *testing.T, line string) {
		v := variables{"NIC": {"enp1s0f0", "enp1s0f1"}, "1": {"$NIC"}}
		for _, c := range splitCommands(v.takeCounting(line)) {
			if len(c.words) > maxWords {
				t.Fatalf("%d words", len(c.words))
			}
			v.takeLoop(dropWrappers(c.words))
			v.takeComparison(c.words)
			for _, w := range v.takeAssignments(c.words) {
				all := v.expandWord(w)
				if len(all) == 0 || len(all) > maxValues || len(strings.Join(all, "")) > maxExpanded+len(w)*maxValues {
					t.Fatalf("%q stands for %d texts", w, len(all))
				}
			}
		}
	})
}
