// Package tuning reads how the owner of a netdevice has set it up beyond what rtnetlink shows:
// its features, queues, receive rules and the like, by ethtool's questions (linux/ethtool.h),
// and the programs at its TCX hooks (linux/bpf.h).
//
// Its input is a netdevice of the calling thread's network namespace. Its results are values by
// name, which callers only compare: the bytes of the answers, or a hash of them. Package kernel
// calls it.
package tuning

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
)

// Sizes of structures in linux/ethtool.h, and where their fields are.
const (
	sizeSimple   = 128 // no shorter than any structure of fixed size but ethtool_rxnfc
	sizeRules    = 192 // struct ethtool_rxnfc
	sizeFeatures = 8 + featureWords*16
	sizeHash     = 24 // struct ethtool_rxfh, before the table and the key
	featureWords = 4  // more than the kernel has
	copybreakLen = 16 + 4
	maxTable     = 1 << 16 // entries of an RSS table, and bytes of its key
)

// question is an ethtool request for one value.
type question struct {
	name    string
	command uint32
	// argument follows the command in the question.
	argument []uint32
	size     int
}

// listQuestions returns what to ask for. It leaves out values of the port that a VF reports, since
// others change them and a bind of the VF's driver does not reset them: pause parameters, link
// modes, FEC and energy-efficient Ethernet (TestI2AsksForNothingOfThePort).
func listQuestions() []question {
	return []question{
		{"rings", unix.ETHTOOL_GRINGPARAM, nil, sizeSimple},
		{"channels", unix.ETHTOOL_GCHANNELS, nil, sizeSimple},
		{"coalesce", unix.ETHTOOL_GCOALESCE, nil, sizeSimple},
		{"private_flags", unix.ETHTOOL_GPFLAGS, nil, sizeSimple},
		{"message_level", unix.ETHTOOL_GMSGLVL, nil, sizeSimple},
		{"wake_on_lan", unix.ETHTOOL_GWOL, nil, sizeSimple},
		{"rx_copybreak", unix.ETHTOOL_GTUNABLE, []uint32{unix.ETHTOOL_RX_COPYBREAK, unix.ETHTOOL_TUNABLE_U32, 4}, copybreakLen},
		{"tx_copybreak", unix.ETHTOOL_GTUNABLE, []uint32{unix.ETHTOOL_TX_COPYBREAK, unix.ETHTOOL_TUNABLE_U32, 4}, copybreakLen},
		{"tx_copybreak_buf_size", unix.ETHTOOL_GTUNABLE, []uint32{txCopybreakBufSize, unix.ETHTOOL_TUNABLE_U32, 4}, copybreakLen},
		{"rules", unix.ETHTOOL_GRXCLSRLCNT, nil, sizeRules},
	}
}

// txCopybreakBufSize is ETHTOOL_TX_COPYBREAK_BUF_SIZE (linux/ethtool.h, Linux 5.17).
const txCopybreakBufSize = 4

// hashFlows are the flow types whose hash fields can be set (TCP_V4_FLOW to AH_ESP_V6_FLOW).
const hashFlows = 8

// Read returns the values that the driver and the kernel have for a netdevice. It leaves out
// the names that they have no value for. It fails when the netdevice is gone or has another
// name now.
func Read(name string, index int) (map[string]string, error) {
	// culvertd's unit allows no AF_INET; Linux 4.6 takes the question from a netlink socket
	// too (025c68186e07).
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("open a socket for ethtool: %w", err)
	}
	defer unix.Close(fd)
	d := netdevice{fd: fd}
	if len(name) >= len(d.name) {
		return nil, fmt.Errorf("interface name %q is too long: %w", name, unix.EINVAL)
	}
	copy(d.name[:], name)
	a := asker{d.callEthtool}

	out := map[string]string{}
	// Every netdevice has features (net/ethtool/ioctl.c, ethtool_get_features).
	if out["features"], err = a.askDigest(question{"features", unix.ETHTOOL_GFEATURES, []uint32{featureWords}, sizeFeatures}); err != nil {
		return nil, fmt.Errorf("read the features of %s: %w", name, err)
	}
	for _, q := range listQuestions() {
		if v, err := a.askDigest(q); err == nil {
			out[q.name] = v
		}
	}
	for flow := uint32(1); flow <= hashFlows; flow++ {
		q := question{fmt.Sprintf("hash_fields_%d", flow), unix.ETHTOOL_GRXFH, []uint32{flow}, sizeRules}
		if v, err := a.askDigest(q); err == nil {
			out[q.name] = v
		}
	}
	for name, read := range map[string]func() (string, error){
		"rss": func() (string, error) { return a.readHash(0) }, "rss_contexts": a.listContexts,
		"rule_list": a.listRules, "queue_coalesce": a.listCoalescing,
	} {
		if v, err := read(); err == nil {
			out[name] = v
		}
	}
	if c, err := unix.IoctlGetHwTstamp(fd, name); err == nil {
		out["timestamps"] = fmt.Sprintf("%d/%d/%d", c.Flags, c.Tx_type, c.Rx_filter)
	}
	for hook, attach := range map[string]uint32{"tcx_ingress": unix.BPF_TCX_INGRESS, "tcx_egress": unix.BPF_TCX_EGRESS} {
		if v, err := listPrograms(index, attach); err == nil {
			out[hook] = v
		}
	}
	return out, nil
}

// asker asks about one netdevice.
type asker struct {
	ioctl func(b []byte) error // has the kernel answer in b
}

// netdevice asks the kernel about the netdevice with a name, through a socket.
type netdevice struct {
	fd   int
	name [unix.IFNAMSIZ]byte
}

// askDigest returns a digest of the answer without its command.
func (a asker) askDigest(q question) (string, error) {
	b := make([]byte, q.size)
	binary.NativeEndian.PutUint32(b, q.command)
	for i, v := range q.argument {
		binary.NativeEndian.PutUint32(b[4*(i+1):], v)
	}
	if err := a.ioctl(b); err != nil {
		return "", err
	}
	return rtnl.Digest(b[4:]), nil
}

// readHash asks for the table of an RSS context that spreads flows over the queues, its key and its
// function: first for their lengths, then for their contents. Context 0 is the netdevice's own.
func (a asker) readHash(context uint32) (string, error) {
	b := make([]byte, sizeHash)
	binary.NativeEndian.PutUint32(b, unix.ETHTOOL_GRSSH)
	binary.NativeEndian.PutUint32(b[4:], context)
	if err := a.ioctl(b); err != nil {
		return "", err
	}
	table, key := binary.NativeEndian.Uint32(b[8:]), binary.NativeEndian.Uint32(b[12:])
	if table > maxTable || key > maxTable {
		return "", fmt.Errorf("an RSS table of %d entries and a key of %d bytes: %w", table, key, unix.E2BIG)
	}
	return a.askDigest(question{"rss", unix.ETHTOOL_GRSSH, []uint32{context, table, key}, sizeHash + 4*int(table) + int(key)})
}

// ifreq is struct ifreq with a pointer (linux/if.h).
type ifreq struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [24 - unsafe.Sizeof(uintptr(0))]byte
}

// callEthtool sends b to the kernel, which puts its answer into b.
func (d netdevice) callEthtool(b []byte) error {
	req := ifreq{name: d.name, data: unsafe.Pointer(unsafe.SliceData(b))}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(d.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	runtime.KeepAlive(b)
	if errno != 0 {
		return errno
	}
	return nil
}

// mostPrograms is how many programs may be at one hook (BPF_MPROG_MAX).
const mostPrograms = 64

// query is the part of union bpf_attr that BPF_PROG_QUERY reads and writes.
type query struct {
	target, attachType, queryFlags, attachFlags uint32
	ids                                         unsafe.Pointer
	count                                       uint32
	_                                           uint32
	_                                           [4]uint64
}

// listPrograms lists the IDs of the programs at a TCX hook (Linux 6.6), which stay when the
// netdevice moves to another netns.
func listPrograms(index int, hook uint32) (string, error) {
	var ids [mostPrograms]uint32
	q := query{target: uint32(index), attachType: hook, ids: unsafe.Pointer(&ids), count: mostPrograms}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_QUERY, uintptr(unsafe.Pointer(&q)), unsafe.Sizeof(q))
	runtime.KeepAlive(&ids)
	switch {
	case errors.Is(errno, unix.ENOENT): // none was ever there
		return "", nil
	case errno != 0:
		return "", errno
	case q.count == 0:
		return "", nil
	}
	return fmt.Sprint(ids[:min(q.count, mostPrograms)]), nil
}
