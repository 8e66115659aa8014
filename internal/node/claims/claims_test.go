package claims

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/culvert-net/culvert/internal/vf"
)

var update = flag.Bool("update", false, "write the golden files")

func pciAddr(s string) vf.PCIAddr {
	a, err := vf.ParsePCIAddr(s)
	if err != nil {
		panic(err)
	}
	return a
}

// host is one with two igb PFs; the first has three VFs, of which one is in a
// container.
func host() []vf.PF {
	link := func(i int) *vf.Link {
		return &vf.Link{Name: fmt.Sprintf("enp1s0f0v%d", i), MAC: vf.MAC{2, 0, 0, 0, 0, byte(i)}}
	}
	return []vf.PF{
		{
			Name: "enp1s0f0", PCI: pciAddr("01:00.0"), Driver: "igb", Vendor: "8086", Device: "10c9", ID: vf.PFID{MAC: vf.MAC{0x90, 0xe2, 0xba, 0, 0, 1}},
			VFs: []vf.State{
				{ID: vf.ID{Index: 0}, Driver: "igbvf", Vendor: "8086", Device: "10ca", PCI: pciAddr("01:10.0"), Link: link(0)},
				{ID: vf.ID{Index: 1}, Driver: "igbvf", Vendor: "8086", Device: "10ca", PCI: pciAddr("01:10.2"), Link: link(1)},
				{ID: vf.ID{Index: 2}, Driver: "igbvf", Vendor: "8086", Device: "10ca", PCI: pciAddr("01:10.4")},
			},
		},
		{Name: "enp1s0f1", PCI: pciAddr("01:00.1"), Driver: "igb", Vendor: "8086", Device: "10c9", ID: vf.PFID{MAC: vf.MAC{0x90, 0xe2, 0xba, 0, 0, 2}}},
	}
}

func show(all []Claim) string {
	var b strings.Builder
	for _, c := range all {
		pf := c.PF
		if pf == "" {
			pf = "?"
		}
		fmt.Fprintf(&b, "%s", pf)
		for _, v := range c.VFs {
			fmt.Fprintf(&b, " vf %d", v)
		}
		fmt.Fprintf(&b, ": %s: %s %s by %s (%s)\n", c.Where(), c.Setting, c.Value, c.Manager, c.Says)
		for _, h := range c.HandOver {
			fmt.Fprintf(&b, "    %s\n", h)
		}
	}
	return b.String()
}

// TestClaims reads the files of each archive and compares the claims with its
// last part.
func TestClaims(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal(archives, err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			root := fstest.MapFS{}
			want := &a.Files[len(a.Files)-1]
			for _, f := range a.Files[:len(a.Files)-1] {
				root[f.Name] = &fstest.MapFile{Data: f.Data}
			}
			rules, err := Read(root)
			if err != nil {
				t.Fatal(err)
			}
			got := show(rules.On(host()))
			if *update {
				want.Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpecs(t *testing.T) {
	d := Device{PF: "a", VF: 3, Name: "enp1s0f0v3", Driver: "igbvf", MAC: vf.MAC{2, 0, 0, 0, 0, 0xa}}
	for spec, want := range map[string]bool{
		"":                                false,
		"*":                               true,
		"*;except:driver:igbvf":           false,
		"except:driver:igb":               true, // only exceptions: all other devices match
		"except:driver:igbvf":             false,
		"interface-name:enp1s0f0v*":       true,
		"interface-name:~enp1s0f?v3":      true,
		"interface-name:=enp1s0f0v*":      false,
		"mac:02:00:00:00:00:0A":           true,
		`mac:02\:00\:00\:00\:00\:0a`:      true,
		"02:00:00:00:00:0a":               true,
		"enp1s0f0v3":                      true,
		"driver:igbvf/1.0":                true,
		"type:ethernet":                   true,
		"type:wifi;interface-name:wl*":    false,
		"interface-name:x;driver:igb*":    true,
		"interface-name:[;driver:other":   false,
		"s390-subchannels:0.0.1":          false,
		"interface-name:enp1s0f0v3;other": true,
	} {
		specs := strings.FieldsFunc(spec, func(c rune) bool { return c == ';' })
		if got := matchesSpecs(specs, d); got != want {
			t.Errorf("%q: %v", spec, got)
		}
	}
}

// counting counts the files that are opened.
type counting struct {
	fs.FS
	suffix string // of the files that count
	opened int
}

func (c *counting) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, c.suffix) {
		c.opened++
	}
	return c.FS.Open(name)
}

func (c *counting) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(c.FS, name) }
func (c *counting) Stat(name string) (fs.FileInfo, error)      { return fs.Stat(c.FS, name) }
func (c *counting) claims(t *testing.T, r *Reader) (out []Claim) {
	t.Helper()
	rules, err := r.Rules()
	if err != nil {
		t.Fatal(err)
	}
	return rules.On(host())
}

// TestReaderReadsOnce: the Reader reads the files again only when one has changed, appeared or
// gone.
func TestReaderReadsOnce(t *testing.T) {
	link := func(vfs string) []byte {
		return []byte("[Match]\nDriver=igb\n[Link]\nSR-IOVVirtualFunctions=" + vfs + "\n")
	}
	const name = "etc/systemd/network/10.link"
	files := fstest.MapFS{name: {Data: link("4"), ModTime: time.Unix(1, 0)}}
	root := &counting{FS: files, suffix: ".link"}
	r := &Reader{Root: root}
	for range 3 {
		if got := root.claims(t, r); len(got) != 2 || got[0].Value != "4" {
			t.Fatalf("claims: %s", show(got))
		}
	}
	if root.opened != 1 {
		t.Errorf("opened %d times, not once", root.opened)
	}
	files[name] = &fstest.MapFile{Data: link("5"), ModTime: time.Unix(2, 0)}
	if got := root.claims(t, r); len(got) != 2 || got[0].Value != "5" {
		t.Errorf("after a change: %s", show(got))
	}
	files["etc/systemd/network/05.link"] = &fstest.MapFile{Data: link("6")}
	if got := root.claims(t, r); len(got) != 2 || got[0].Value != "6" {
		t.Errorf("after a new file: %s", show(got))
	}
	delete(files, name)
	delete(files, "etc/systemd/network/05.link")
	if got := root.claims(t, r); len(got) != 0 {
		t.Errorf("after all went: %s", show(got))
	}
}

// TestReaderFollowsSources: the Reader also reads the files again when a file that another one
// sources has changed.
func TestReaderFollowsSources(t *testing.T) {
	files := fstest.MapFS{
		"run/network/ifstate":    {},
		"etc/network/interfaces": {Data: []byte("source /srv/nets/*\n")},
		"srv/nets/a":             {Data: []byte("iface enp1s0f0 inet dhcp\n mtu 1400\n"), ModTime: time.Unix(1, 0)},
	}
	r := &Reader{Root: files}
	mtu := func() string {
		t.Helper()
		rules, err := r.Rules()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range rules.On(host()) {
			if c.Setting == MTU {
				return c.Value
			}
		}
		return ""
	}
	if got := mtu(); got != "1400" {
		t.Fatalf("MTU %q", got)
	}
	files["srv/nets/a"] = &fstest.MapFile{Data: []byte("iface enp1s0f0 inet dhcp\n mtu 1300\n"), ModTime: time.Unix(2, 0)}
	if got := mtu(); got != "1300" {
		t.Errorf("after a change: MTU %q", got)
	}
}

// TestReaderFollowsScripts: the Reader also reads the files again when a script that a unit names
// has changed, appeared or gone, and when an instance of a template is enabled.
func TestReaderFollowsScripts(t *testing.T) {
	script := func(n string, at int64) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("#!/bin/sh\necho " + n + " > /sys/class/net/$1/device/sriov_numvfs\n"), ModTime: time.Unix(at, 0)}
	}
	files := fstest.MapFS{
		"etc/systemd/system/a.service":  {Data: []byte("[Service]\nExecStart=/opt/vfs enp1s0f0\n")},
		"etc/systemd/system/b@.service": {Data: []byte("[Service]\nExecStart=/opt/vfs %i\n")},
		"opt/vfs":                       script("4", 1),
	}
	const enabled = "etc/systemd/system/x.wants/b@enp1s0f1.service"
	root := &counting{FS: files, suffix: "opt/vfs"}
	r := &Reader{Root: root}
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "?  4 enp1s0f0 4"},
		{func() { files["opt/vfs"] = script("5", 2) }, "?  5 enp1s0f0 5"},
		{func() { delete(files, "opt/vfs") }, ""},
		{func() { files["opt/vfs"] = script("6", 3) }, "?  6 enp1s0f0 6"},
		{func() { files[enabled] = &fstest.MapFile{} }, "enp1s0f0 6 enp1s0f1 6"},
	} {
		step.change()
		got := ""
		for range 2 {
			got = ""
			for _, c := range root.claims(t, r) {
				if c.PF == "" {
					c.PF = "? "
				}
				got += " " + c.PF + " " + c.Value
			}
		}
		if got = strings.TrimSpace(got); got != step.want {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
	before := root.opened
	root.claims(t, r)
	if root.opened != before {
		t.Errorf("opened the script though nothing changed")
	}
}

// I7: Culvert reports a file that it cannot read, and the file hides no other.
func TestOneBadFile(t *testing.T) {
	root := fstest.MapFS{
		"etc/systemd/network/10-a.link": {Data: slices.Repeat([]byte("#"), maxFile+1)},
		"etc/systemd/network/20-b.link": {Data: []byte("[Match]\nDriver=igb\n[Link]\nSR-IOVVirtualFunctions=4\n")},
	}
	rules, err := Read(root)
	if err == nil || !strings.Contains(err.Error(), "10-a.link") {
		t.Errorf("error: %v", err)
	}
	if got := rules.On(host()); len(got) != 2 {
		t.Errorf("claims: %s", show(got))
	}
}

// TestMask: a link to /dev/null in /etc masks a package's file of the same name.
func TestMask(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"etc/systemd/network", "usr/lib/systemd/network"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "usr/lib/systemd/network/10.link"), []byte("[Match]\nDriver=igb\n[Link]\nMTUBytes=1400\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", filepath.Join(dir, "etc/systemd/network/10.link")); err != nil {
		t.Fatal(err)
	}
	rules, err := Read(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	if got := rules.On(host()); len(got) != 0 {
		t.Errorf("a masked file claims: %s", show(got))
	}
}

// TestQuoted: text quoted from a file has no control characters for a terminal, and no name in it
// is run as part of a command.
func TestQuoted(t *testing.T) {
	root := fstest.MapFS{
		"run/NetworkManager/devices/2":            {},
		"run/systemd/netif/state":                 {},
		"etc/netplan/a.yaml":                      {Data: []byte("network: {ethernets: {\"a\\e[31m'$(x)\": {match: {driver: igb}, mtu: 9000}}}\n")},
		"etc/NetworkManager/system-connections/a": {Data: []byte("[connection]\nid=a'$(x)\x1b[31m\ntype=ethernet\n[sriov]\n")},
		"etc/systemd/network/a.network":           {Data: []byte("[Match]\nType=ether\n")},
	}
	rules, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	pfs := host()
	pfs[0].Name = "$(reboot)"
	got := show(rules.On(pfs))
	if strings.Contains(got, "\x1b") {
		t.Errorf("control characters:\n%q", got)
	}
	for _, want := range []string{`remove sriov`, `'a'\''$(x)\x1b[31m'`, `'ethernets.a\x1b[31m'\''$(x).mtu=null'`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, "    ") && strings.Contains(line, "reboot") {
			t.Errorf("a name in a command: %s", line)
		}
	}
}
