package tuning

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
)

// These constants bound the lists: the owner of a netdevice makes their entries, and each costs
// a system call. A list beyond its bound differs from every baseline by its number.
const (
	mostContexts = 64 // drivers have 16 or 32
	mostRules    = 1024
	mostQueues   = 512
)

// Fields of struct ethtool_rxnfc and struct ethtool_per_queue_op (linux/ethtool.h).
const (
	ruleLocation = 176 // fs.location
	ruleCount    = 184
	ruleList     = 188 // of 32 bits each
	perQueueMask = 8
	perQueueData = perQueueMask + 4096/8
	sizeCoalesce = 23 * 4
)

// listContexts lists the RSS contexts besides the netdevice's own, which is context 0. Drivers
// number them from 1 (ethtool_rxfh_context_alloc); a deleted context leaves a gap.
func (a asker) listContexts() (string, error) {
	var out []string
	for i := uint32(1); i <= mostContexts; i++ {
		v, err := a.readHash(i)
		switch {
		case err == nil:
			out = append(out, fmt.Sprintf("%d=%s", i, v))
		case !errors.Is(err, unix.ENOENT) && i == 1:
			return "", err // the driver has none
		}
	}
	return rtnl.Digest([]byte(strings.Join(out, " "))), nil
}

// listRules lists the receive rules: the frames that they match and where these go.
func (a asker) listRules() (string, error) {
	b := make([]byte, sizeRules)
	binary.NativeEndian.PutUint32(b, unix.ETHTOOL_GRXCLSRLCNT)
	if err := a.ioctl(b); err != nil {
		return "", err
	}
	n := binary.NativeEndian.Uint32(b[ruleCount:])
	switch {
	case n == 0:
		return "", nil
	case n > mostRules:
		return fmt.Sprintf("%d", n), nil
	}
	all := make([]byte, max(sizeRules, ruleList+4*int(n)))
	binary.NativeEndian.PutUint32(all, unix.ETHTOOL_GRXCLSRLALL)
	binary.NativeEndian.PutUint32(all[ruleCount:], n)
	if err := a.ioctl(all); err != nil {
		return "", err
	}
	n = min(n, binary.NativeEndian.Uint32(all[ruleCount:]))
	var out []string
	for i := range int(n) {
		location := all[ruleList+4*i:][:4]
		rule := make([]byte, sizeRules)
		binary.NativeEndian.PutUint32(rule, unix.ETHTOOL_GRXCLSRULE)
		copy(rule[ruleLocation:], location)
		if err := a.ioctl(rule); err != nil {
			return "", err
		}
		out = append(out, rtnl.Digest(rule[4:]))
	}
	return rtnl.Digest([]byte(strings.Join(out, " "))), nil
}

// listCoalescing lists the coalescing parameters of each queue, if the driver has them. The
// parameters of the netdevice are then those of its first queue.
func (a asker) listCoalescing() (string, error) {
	var out []string
	for queue := range mostQueues {
		b := make([]byte, perQueueData+sizeCoalesce)
		binary.NativeEndian.PutUint32(b, unix.ETHTOOL_PERQUEUE)
		binary.NativeEndian.PutUint32(b[4:], unix.ETHTOOL_GCOALESCE)
		binary.NativeEndian.PutUint32(b[perQueueMask+4*(queue/32):], 1<<(queue%32))
		err := a.ioctl(b)
		switch {
		case err == nil:
			out = append(out, rtnl.Digest(b[perQueueData+4:]))
			continue
		case queue == 0:
			return "", err // the driver has none
		}
		break
	}
	return rtnl.Digest([]byte(strings.Join(out, " "))), nil
}
