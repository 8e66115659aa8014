package kernel

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/vf"
)

var update = flag.Bool("update", false, "rewrite what testdata/hosts expects")

// told has the links of a host, as its text archive describes them. It answers requests as netlink
// does.
type told []rtnl.Link

func (t told) Link(index int, withVFs bool) (rtnl.Link, error) {
	i := slices.IndexFunc(t, func(l rtnl.Link) bool { return l.Index == index })
	if i < 0 {
		return rtnl.Link{}, unix.ENODEV
	}
	l := t[i]
	if !withVFs {
		l.VFs = nil
	}
	return l, nil
}

func (t told) FindLinks(match func(rtnl.Link) bool) ([]rtnl.Link, error) {
	return slices.DeleteFunc(slices.Clone(t), func(l rtnl.Link) bool { return match != nil && !match(l) }), nil
}

func (told) Addrs(int) (rtnl.List[rtnl.Addr], error)   { return rtnl.List[rtnl.Addr]{}, nil }
func (told) Routes(int) (rtnl.List[rtnl.Route], error) { return rtnl.List[rtnl.Route]{}, nil }
func part(a *txtar.Archive, name string) []byte        { return a.Files[index(a, name)].Data }

func index(a *txtar.Archive, name string) int {
	return slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
}

// hostOf returns a Kernel of a host whose sysfs and netlink answers are in an archive.
func hostOf(t *testing.T, a *txtar.Archive) *Kernel {
	t.Helper()
	var links told
	if err := json.Unmarshal(part(a, "netlink"), &links); err != nil {
		t.Fatal(err)
	}
	sys := &txtar.Archive{Files: slices.DeleteFunc(slices.Clone(a.Files), func(f txtar.File) bool {
		_, err := vf.ParsePCIAddr(f.Name)
		return err != nil && !strings.HasPrefix(f.Name, "class/")
	})}
	k := New(Options{SysRoot: layOut(t, sys).root})
	k.tune = func(string, int) (map[string]string, error) { return map[string]string{}, nil }
	k.see = func(path string, fn func(reader) error) error {
		if path != "" {
			return vf.ErrNetnsGone
		}
		return fn(links)
	}
	return k
}

// TestHosts compares what Culvert reads of each host in testdata/hosts: its NICs, PFs and VFs with
// their abilities, what host.yaml would change, and the pool of each VF.
func TestHosts(t *testing.T) {
	all, err := filepath.Glob("testdata/hosts/*.txtar")
	if err != nil || len(all) == 0 {
		t.Fatal("no hosts", err)
	}
	for _, file := range all {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a := parseArchive(t, strings.TrimPrefix(file, "testdata/"))
			if !strings.Contains(string(a.Comment), "Written by hand") {
				t.Error("a host says where its facts are from, and that it is no capture")
			}
			k := hostOf(t, a)
			got := strings.ReplaceAll(describe(t, k, part(a, "host.yaml")), k.sys.root, "/sys")
			if *update {
				i := index(a, "want")
				if i < 0 {
					a.Files, i = append(a.Files, txtar.File{Name: "want"}), len(a.Files)
				}
				a.Files[i].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := gocmp.Diff(strings.Split(string(part(a, "want")), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func describe(t *testing.T, k *Kernel, hostYAML []byte) string {
	t.Helper()
	spec, err := desired.Parse("host.yaml", hostYAML)
	if err != nil {
		t.Fatal(err)
	}
	pfs, err := k.PFs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("NICs\n" + nicsOf(t, k) + "PFs\n")
	for _, pf := range pfs {
		describePF(&b, pf, spec)
	}
	b.WriteString("host.yaml would change\n")
	for _, r := range spec.Unmatched(pfs) {
		fmt.Fprintf(&b, "no PF for %s\n", r)
	}
	for _, p := range reconcile.Plan(spec, pfs, nil, nil) {
		describePlan(&b, p)
	}
	for _, pf := range pfs {
		for _, v := range pf.VFs {
			one, err := k.VF(t.Context(), v.PCI, "")
			common := gocmp.Comparer(func(a, b vf.Attributes) bool { return len(a.Diff(b)) == 0 })
			if diff := gocmp.Diff(v, one, common); pf.Err == "" && (diff != "" || err != nil) {
				t.Errorf("VF %s reads otherwise by itself: %v (-of its PF +by itself):\n%s", v.PCI, err, diff)
			}
		}
	}
	return b.String()
}

func describePF(b *strings.Builder, pf vf.PF, spec desired.Spec) {
	fmt.Fprintf(b, "%s %s:%s %s name %q port %q id %s numa %d up %t carrier %t %d Mb/s mtu %d of %d autoprobe %s, %d of %d VFs\n",
		pf.PCI, pf.Vendor, pf.Device, cmp.Or(pf.Driver, "without driver"), pf.Name, pf.Port, pf.ID, pf.NUMA, pf.Up, pf.Carrier, pf.SpeedMbps,
		pf.MTU, pf.MaxMTU, pf.Autoprobe, pf.NumVFs, pf.TotalVFs)
	if pf.Master != nil {
		fmt.Fprintf(b, "  in %s\n", *pf.Master)
	}
	if pf.Err != "" {
		fmt.Fprintf(b, "  error: %s\n", pf.Err)
	}
	for _, s := range vf.Settings() {
		if a := pf.Abilities[s]; a != vf.Unknown {
			fmt.Fprintf(b, "  %s: %s\n", s, a)
		}
	}
	if r := pf.RateRange(); r != "" {
		fmt.Fprintf(b, "  rates: %s\n", r)
	}
	for _, v := range pf.VFs {
		pool, _ := spec.PoolOf(pf, v.ID.Index, v)
		fmt.Fprintf(b, "  vf %d %s %s:%s %s pool %q mac %q vlan %s spoofchk %s trust %s rss_query %s rate %d, effectively %d\n", v.ID.Index, v.PCI, v.Vendor, v.Device,
			cmp.Or(v.Driver, "without driver"), pool.Name, v.Admin.MAC, v.Admin.VLAN, v.Admin.SpoofChk, v.Admin.Trust, v.Admin.RSSQuery,
			v.Admin.MaxTxRate, vf.DriverOf(pf.Driver).Effective(v.Admin).MaxTxRate)
		if r := v.RDMA; r != nil {
			fmt.Fprintf(b, "    RDMA %s %s\n", r.Device, strings.Join(r.Nodes, " "))
		}
		if l := v.Link; l != nil {
			fmt.Fprintf(b, "    %s mac %s mtu %d up %t carrier %t\n", l.Name, l.MAC, l.MTU, l.Up, l.Carrier)
		}
	}
	for i := range min(pf.TotalVFs, 256) {
		if _, there := pf.VF(i); there {
			continue
		}
		if pool, ok := spec.PoolOf(pf, i, vf.State{}); ok && (i == 0 || i == pf.TotalVFs-1) {
			fmt.Fprintf(b, "  vf %d, once made: pool %q\n", i, pool.Name)
		}
	}
}

func describePlan(b *strings.Builder, p reconcile.PFPlan) {
	if p.Err != nil {
		fmt.Fprintln(b, p.Err)
	}
	for i, c := range p.Changes {
		if i == 8 {
			fmt.Fprintf(b, "%s: and %d more\n", p.PF.Label(), len(p.Changes)-i)
			break
		}
		fmt.Fprintf(b, "%s: %s\n", p.PF.Label(), c)
	}
}
