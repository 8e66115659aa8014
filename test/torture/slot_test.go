package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/vf"
)

// knowledge is what a runtime knows of an attachment.
type knowledge string

const (
	gone     knowledge = "gone"     // the plugin said so
	attached knowledge = "attached" // the plugin said so
	unknown  knowledge = "unknown"  // the last call failed
)

// slot runs one pod after the other under one name: it attaches a pod, checks
// it, detaches it, and begins anew.
type slot struct {
	churn *churn
	rng   *rand.Rand
	pod   pod
	kinds []kind

	// Only the slot writes the fields below. Others read them while the churn
	// is stopped.
	state    knowledge
	has      result
	kind     kind
	hasNetns bool
	since    time.Time // when the last ADD ended
	waits    bool      // for GC, which spares young attachments
}

// kind is a network that a slot requests, and the settings that its VF must
// have.
type kind struct {
	config string
	spec   vf.Spec
}

func at[T any](v T) *T { return &v }

// subnet has more addresses than there are VFs, but so few that addresses are
// soon given out again.
const subnet = `"ipam": {"type": "host-local", "subnet": "10.9.0.0/26"}`

// netKinds are the networks of a netdevice slot: from nothing to everything.
func netKinds(n int) []kind {
	net := func(settings string) string {
		return `{"cniVersion": "1.1.0", "name": "churn", "type": "culvert", "pool": "net", ` + settings + subnet + `}`
	}
	mac := vf.MAC{0x02, 0xaa, 0, 0, 0, byte(n)}
	return []kind{
		{net(``), vf.Spec{}},
		{net(`"vlan": 100, "vlanQoS": 2, "spoofchk": "off", `), vf.Spec{VLAN: &vf.VLAN{ID: 100, QoS: 2}, SpoofChk: at(false)}},
		{net(fmt.Sprintf(`"mac": %q, "trust": "on", "mtu": 1400, `, mac)), vf.Spec{MAC: &mac, Trust: at(true), MTU: at(1400)}},
		{net(fmt.Sprintf(`"vlan": 7, "mac": %q, "trust": "on", "max_tx_rate": 200, "mtu": 1300, `, mac)),
			vf.Spec{MAC: &mac, VLAN: &vf.VLAN{ID: 7}, Trust: at(true), MaxTxRate: at(uint32(200)), MTU: at(1300)}},
	}
}

// vmKinds are the networks of a slot for user space.
func vmKinds() []kind {
	vm := func(settings string) string {
		return `{"cniVersion": "1.1.0", "name": "vm", "type": "culvert", ` + settings + `"pool": "vm"}`
	}
	return []kind{
		{vm(``), vf.Spec{Driver: vf.DriverVFIO}},
		{vm(`"vlan": 300, "trust": "on", `), vf.Spec{Driver: vf.DriverVFIO, VLAN: &vf.VLAN{ID: 300}, Trust: at(true)}},
	}
}

// step does one action. It returns an error if the action failed although
// culvertd was not killed and the call was not given up.
func (s *slot) step(ctx context.Context) error {
	before, down := s.churn.kills.Load(), s.churn.down.Load() != nil
	what, err := s.act(ctx)
	switch {
	case err == nil:
		s.churn.count(what)
	case down || s.churn.kills.Load() != before:
		s.churn.count(what + " cut off")
	case errors.Is(err, errKilled):
		s.churn.count(what + " given up")
	default:
		return fmt.Errorf("%s of %s: %w", what, s.pod.id, err)
	}
	return nil
}

func (s *slot) act(ctx context.Context) (what string, err error) {
	dice := s.rng.IntN(100)
	switch {
	case s.state == gone:
		return "ADD", s.add(ctx, dice < 5)
	case s.state == attached && s.waits && time.Since(s.since) < hold.GCGrace:
		time.Sleep(hold.GCGrace / 20)
		return "CHECK", s.check(ctx)
	case s.waits && time.Since(s.since) >= hold.GCGrace:
		return "GC", s.collect(ctx)
	case s.state == attached && dice < 15:
		return "CHECK", s.check(ctx)
	default:
		return "DEL", s.del(ctx, dice)
	}
}

func (s *slot) add(ctx context.Context, impatient bool) error {
	if !s.hasNetns {
		if err := netns.New(s.pod.netns); err != nil {
			return err
		}
		s.hasNetns = true
	}
	s.kind = s.kinds[s.rng.IntN(len(s.kinds))]
	s.pod.config = s.kind.config
	s.state = unknown
	if impatient {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(s.rng.IntN(500))*time.Millisecond)
		defer cancel()
	}
	r, err := s.churn.d.cni(ctx, "ADD", s.pod)
	s.since, s.waits = time.Now(), s.rng.IntN(20) == 0
	var e *cniError
	switch {
	case errors.As(err, &e) && e.Code == codeNothingFree:
		return nil
	case err == nil:
		s.state, s.has = attached, r
	}
	return err
}

// codeNothingFree is the code of the CNI error if all VFs of the pool are held.
const codeNothingFree = 100

func (s *slot) check(ctx context.Context) error {
	_, err := s.churn.d.cni(ctx, "CHECK", s.pod)
	return err
}

// del detaches the pod. In some calls the netns has no path or is deleted
// before, as after the kill of a container. Some calls are repeated, as
// runtimes do.
func (s *slot) del(ctx context.Context, dice int) error {
	p := s.pod
	s.state = unknown
	switch {
	case dice < 35:
		p.netns = ""
	case dice < 50:
		if err := netns.Delete(s.pod.netns); err != nil {
			return err
		}
		s.hasNetns = false
	}
	_, err := s.churn.d.cni(ctx, "DEL", p)
	if err == nil && dice%5 == 0 {
		_, err = s.churn.d.cni(ctx, "DEL", p)
	}
	if err == nil {
		s.state, s.has = gone, result{}
	}
	return err
}

// collect ends the slot's own attachment by a GC in which all others are valid. It is older
// than hold.GCGrace.
func (s *slot) collect(ctx context.Context) error {
	s.state = unknown
	p := s.pod
	p.config = s.churn.others(s)
	_, err := s.churn.d.cni(ctx, "GC", p)
	if err == nil {
		s.state, s.has = gone, result{}
	}
	return err
}
