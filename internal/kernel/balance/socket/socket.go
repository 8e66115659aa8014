// Package socket balances connections to Services at the socket, by eBPF programs of the root
// cgroup: connect and sendmsg get a backend in place of the ClusterIP, recvmsg and getpeername show
// the ClusterIP again. Packets have no extra cost. The programs look at the cookie of the network
// namespace first and leave all but those of a [balance.Table] alone. They run beside the programs
// of others (bpf_link, which implies BPF_F_ALLOW_MULTI).
//
// Its input is a Table. Its results are pinned maps, programs and links, which go on working
// without culvertd. SCTP has no such hooks; package filter serves it.
package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

// version is the version of the layout of the maps and of the contents that the programs expect in
// them.
const version = "services-v2"

// grace is how long the backends of an earlier set stay: a program may have read the rule
// that names it. Programs take microseconds.
const grace = time.Second

// Balancer holds the maps. One culvertd uses it, and no two of its methods at once.
type Balancer struct {
	dir, cgroup string
	tables      tables
	programs    []*ebpf.Program // of hooks
	attached    bool            // Apply has attached them

	// These mirror the maps.
	pods    map[uint64]pod
	slots   uint32 // the slots from 1 to this one have all their maps
	rules   map[key]rule
	sets    map[uint32]*balance.Rule
	lastSet uint32
	// stale are the views whose UDP rules changed since sockets of removed backends were ended.
	stale    map[balance.ViewID]bool
	retired  []retiredSet
	cookies  map[string]uint64 // of pods' network namespaces, by Pod.ID
	now      func() time.Time
	interval time.Duration // grace
	maxEnded int           // maxEnded
}

type retiredSet struct {
	set  uint32
	when time.Time
}

// Supports reports whether the programs see connections of a protocol.
func Supports(p balance.Protocol) bool { return p == balance.TCP || p == balance.UDP }

// Limit returns how many rules and backends a table may have: half of the room in the maps, since a
// change writes the new sets and rules beside the old ones.
func Limit() balance.Limit { return balance.Limit{Rules: maxRules / 2, Backends: maxBackends / 2} }

// Open loads the programs and makes or finds the maps below dir ([balance.PinDir]), for processes of a cgroup
// (v2). The first Apply attaches the programs. The error says which ability the host lacks, or that
// the kernel does not attach them.
func Open(dir, cgroup string) (_ *Balancer, err error) {
	b := &Balancer{
		dir: dir, cgroup: cgroup, now: time.Now, interval: grace, maxEnded: maxEnded,
		pods: map[uint64]pod{}, rules: map[key]rule{}, sets: map[uint32]*balance.Rule{}, stale: map[balance.ViewID]bool{}, cookies: map[string]uint64{},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if err := checkHost(dir, cgroup); err != nil {
		return nil, err
	}
	if err := b.openMaps(); err != nil {
		return nil, err
	}
	if err := b.load(); err != nil {
		return nil, err
	}
	if err := b.checkHooks(); err != nil {
		return nil, err
	}
	return b, b.read()
}

// checkHost returns an error if the host lacks something that eBPF needs. It changes nothing.
func checkHost(dir, cgroup string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(cgroup, &fs); err != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return fmt.Errorf("%q is no cgroup2 hierarchy", cgroup)
	}
	root := filepath.Dir(dir)
	if err := unix.Statfs(root, &fs); err != nil || fs.Type != unix.BPF_FS_MAGIC {
		return fmt.Errorf("no BPF file system is mounted at %s", root)
	}
	if _, err := cookieOf("/proc/thread-self/ns/net"); err != nil {
		return err
	}
	return nil
}

// openMaps opens the pinned maps, or makes and pins them. Maps of another layout under the
// same names are replaced.
func (b *Balancer) openMaps() error {
	at := filepath.Join(b.dir, version)
	if err := os.MkdirAll(at, 0o700); err != nil {
		return fmt.Errorf("make the folder of pinned eBPF maps: %w", err)
	}
	for name, spec := range specs {
		path := filepath.Join(at, name)
		m, err := ebpf.LoadPinnedMap(path, nil)
		if err == nil && spec.Compatible(m) != nil {
			_ = m.Close()
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove an eBPF map of another layout: %w", err)
			}
			err = fs.ErrNotExist
		}
		if errors.Is(err, fs.ErrNotExist) {
			m, err = newMap(spec, path)
		}
		if err != nil {
			return fmt.Errorf("eBPF map %s: %w", path, err)
		}
		*b.tables.byName(name) = m
	}
	return nil
}

func newMap(spec *ebpf.MapSpec, path string) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, err
	}
	if err := m.Pin(path); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// load loads the programs.
func (b *Balancer) load() error {
	for _, h := range hooks {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: ownPrefix + h.name, Type: ebpf.CGroupSockAddr, AttachType: h.attach, License: "Apache-2.0", Instructions: h.build(b.tables, h.v6),
		})
		if err != nil {
			return fmt.Errorf("load the eBPF program for %s: %w", h.name, err)
		}
		b.programs = append(b.programs, p)
	}
	return nil
}

// removeFormer frees the maps of former layouts, which no program uses any more.
func (b *Balancer) removeFormer() error {
	pinned, err := os.ReadDir(b.dir)
	for _, e := range pinned {
		if e.IsDir() && e.Name() != version {
			err = errors.Join(err, os.RemoveAll(filepath.Join(b.dir, e.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("remove the eBPF maps of a former layout: %w", err)
	}
	return nil
}

// Close closes the maps and programs. The pinned ones go on working in the kernel.
func (b *Balancer) Close() error {
	var errs []error
	for name := range specs {
		if m := *b.tables.byName(name); m != nil {
			errs = append(errs, m.Close())
		}
	}
	for _, p := range b.programs {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// Remove detaches the programs and frees the maps that are pinned below dir; the kernel does it
// a moment later. It is no error when there are none.
func Remove(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the eBPF programs of Services: %w", err)
	}
	return nil
}
