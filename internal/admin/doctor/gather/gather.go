// Package gather collects the facts that package doctor judges: from the kernel, from files, from
// culvertd. It changes nothing. If it cannot get a fact, it leaves the fact out, and records the
// reason where Facts has a field for it.
package gather

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/admin/doctor"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/kernel/pathmtu"
	"github.com/culvert-net/culvert/internal/kernel/survey"
	"github.com/culvert-net/culvert/internal/node/claims"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// kernel is kernel.Kernel.
type kernel interface {
	PFs(context.Context) ([]vf.PF, error)
	NICs(context.Context) ([]vf.NIC, error)
}

// Options say where Facts looks for facts.
type Options struct {
	Root     string // of the host's files: "/" outside of tests
	Kernel   kernel
	Status   func(context.Context) (api.NodeStatus, error) // asks culvertd
	Cluster  func(context.Context) (doctor.Cluster, error) // asks the API server; nil: no cluster is asked
	HostFile string                                        // below Root
	Ledger   string                                        // the ledger's file, below Root
	Version  string
	Build    string     // revision of the doctor's own program; empty: unknown
	Peer     netip.Addr // to send probes to; the zero value: none
	IsRoot   bool
	Role     string // doctor.RoleKubernetes, or empty
}

// Facts collects the facts. It never fails.
func Facts(ctx context.Context, o Options) doctor.Facts {
	f := doctor.Facts{
		Version: o.Version, Root: o.IsRoot, Role: o.Role,
		Host:        survey.Read(survey.Root(o.Root)),
		Ledger:      survey.ReadDisk(filepath.Join(o.Root, filepath.Dir(o.Ledger))),
		Libvirt:     readLibvirt(o.Root),
		KubeletSwap: kubeletSwap(o.Root),
		Devices:     map[vf.PCIAddr]survey.Device{},
	}
	f.CNI = readCNI(o.Root, o.Build, f.Host.Processes)
	f.Ledger.Path = filepath.Dir(o.Ledger)
	var nicErr, pfErr error
	f.NICs, nicErr = o.Kernel.NICs(ctx)
	f.PFs, pfErr = o.Kernel.PFs(ctx)
	if err := errors.Join(nicErr, pfErr); err != nil {
		f.NICErr = excerpt.Error(err)
	}
	for _, pf := range f.PFs {
		f.Devices[pf.PCI] = survey.ReadDevice(survey.Root(o.Root), pf.PCI)
		for _, v := range pf.VFs {
			f.Devices[v.PCI] = survey.ReadDevice(survey.Root(o.Root), v.PCI)
		}
	}
	var err error
	if f.Spec, f.SpecMissing, err = readSpec(o); err != nil {
		f.SpecErr = excerpt.Error(err)
	}
	rules, err := claims.Read(os.DirFS(o.Root))
	f.Claims = rules.On(f.PFs)
	if err != nil {
		f.ClaimsErr = excerpt.Error(err)
	}
	if st, err := o.Status(ctx); err != nil {
		f.StatusErr = excerpt.Error(err)
	} else {
		f.Status = &st
	}
	if o.Cluster != nil {
		c, err := o.Cluster(ctx)
		if err != nil {
			c.Err = excerpt.Error(err)
		}
		f.Cluster = &c
	}
	if o.Peer.IsValid() {
		p := probePeer(ctx, o.Peer, f)
		f.Peer = &p
	}
	return f
}

func readSpec(o Options) (s desired.Spec, missing bool, err error) {
	content, err := readFile(o.Root, o.HostFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s, true, nil
	}
	if err == nil {
		s, err = desired.Parse(o.HostFile, content)
	}
	return s, false, err
}

// maxFile bounds how much of a configuration is read, in bytes.
const maxFile = 1 << 20

// readFile reads a regular file. It does not wait for a writer of a FIFO (open(2), O_NONBLOCK).
func readFile(root, name string) ([]byte, error) {
	f, err := os.OpenFile(filepath.Join(root, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: no file", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: more than %d bytes", name, maxFile)
	}
	return text, err
}

// kubeletSwap reads the kubelet's configuration (KubeletConfiguration
// v1beta1).
func kubeletSwap(root string) bool {
	for _, name := range []string{"var/lib/kubelet/config.yaml", "etc/kubernetes/kubelet/config.yaml"} {
		var c struct {
			FailSwapOn *bool `yaml:"failSwapOn"`
		}
		if text, err := readFile(root, name); err == nil && yaml.Unmarshal(text, &c) == nil && c.FailSwapOn != nil {
			return !*c.FailSwapOn
		}
	}
	return false
}

// probePeer finds out how large a packet gets to the peer. The largest that it tries has the MTU
// that host.yaml wants for the netdevice, or else the netdevice's own.
func probePeer(ctx context.Context, peer netip.Addr, f doctor.Facts) doctor.Peer {
	p := doctor.Peer{Address: peer.String(), Least: pathmtu.Least(peer)}
	fail := func(err error) doctor.Peer {
		p.Err = excerpt.Error(err)
		return p
	}
	route, err := pathmtu.Find(peer)
	if err != nil {
		return fail(err)
	}
	p.Device, p.MTU, p.Want = route.Device, route.MTU, route.MTU
	for _, pf := range f.PFs {
		if want, ok := f.Spec.ForPF(pf); ok && pf.Name == route.Device && want.MTU != 0 {
			p.Want = want.MTU
		}
	}
	p.Want = min(p.Want, 65535) // the MTU of lo is one more
	ok, err := pathmtu.Fits(ctx, peer, route.Device, p.Want)
	if err != nil {
		return fail(err)
	}
	if ok {
		p.Fits = p.Want
		return p
	}
	if ok, err = pathmtu.Fits(ctx, peer, route.Device, p.Least); err != nil {
		return fail(err)
	} else if !ok {
		return p
	}
	if p.Fits, err = pathmtu.Largest(ctx, peer, route.Device, p.Least, p.Want); err != nil {
		return fail(err)
	}
	return p
}
