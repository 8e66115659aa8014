package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/service/table"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// ledger is journal.Ledger.
type ledger interface {
	View(func(*journal.Tx) error) error
	Changed() <-chan struct{}
}

// pods is the part of kube.Client that returns pods.
type pods interface {
	Known(namespace, name string) (api.Pod, bool)
	PodEvent(p api.Pod, kind, reason, text string)
}

// clientFinder finds the node's pods with VFs, and the networks that they are attached to. The
// ledger has each pod's VFs and their interfaces, and the sandbox that culvertd set up has the
// network of each interface. If another meta plugin sets up the pods' networks, clientFinder
// reads the network in the pod's network-status. A pod with a false network-status only sees
// Services of networks that it cannot reach.
type clientFinder struct {
	ledger ledger
	pods   pods
	// networks has, by sandbox, the network of each interface. These never change.
	networks map[string]map[string]service.Network
	vfio     []attachment
	reported map[string]bool // the reported events about vfio, by sandbox and network
}

// attachment is a VF of a pod.
type attachment struct {
	owner   vf.Owner
	podUID  string
	netns   string
	network service.Network
}

func newClientFinder(l ledger, p pods) clientFinder {
	return clientFinder{ledger: l, pods: p, networks: map[string]map[string]service.Network{}, reported: map[string]bool{}}
}

// find returns the pods whose VFs have a kernel driver, in the ledger's order, and remembers
// those with vfio for reportVFIO.
func (c *clientFinder) find() (out []table.Client, err error) {
	attached, err := c.attachments()
	if err != nil {
		return nil, err
	}
	c.vfio = nil
	index := map[string]int{}
	for _, a := range attached {
		if a.netns == "" {
			c.vfio = append(c.vfio, a)
			continue
		}
		i, there := index[a.owner.UID]
		if !there {
			i = len(out)
			index[a.owner.UID] = i
			out = append(out, table.Client{ID: a.owner.UID, Netns: a.netns})
		}
		out[i].Networks = append(out[i].Networks, a.network)
	}
	return out, nil
}

// attachments returns the VFs of pods whose networks are known.
func (c *clientFinder) attachments() (out []attachment, err error) {
	networks := map[string]map[string]service.Network{}
	err = c.ledger.View(func(tx *journal.Tx) error {
		for _, r := range tx.Records() {
			owner := r.Lease.Owner
			if r.Phase != vf.PhaseAttached || owner.Kind != vf.OwnerPod {
				continue
			}
			of, known := c.networks[owner.UID]
			if !known {
				of = sandboxNetworks(tx, owner.UID)
			}
			if of != nil {
				networks[owner.UID] = of
			} else {
				of = c.statusNetworks(owner.Name)
			}
			listed := r.Lease.Bond != nil && slices.ContainsFunc(out, func(a attachment) bool { return a.owner == owner })
			if n, ok := of[owner.Interface]; ok && !listed {
				out = append(out, attachment{owner, r.Lease.PodUID, r.Lease.Netns, n})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read which pods have VFs: %w", err)
	}
	c.networks = networks
	return out, nil
}

// sandboxNetworks returns the networks of a sandbox by interface; nil where culvertd did not
// set it up.
func sandboxNetworks(tx *journal.Tx, id string) map[string]service.Network {
	s, err := tx.Sandbox(id)
	if err != nil || s.Damage != "" {
		return nil
	}
	out := map[string]service.Network{}
	for _, n := range s.Networks {
		if network, err := service.ParseNetwork(n.Name, ""); err == nil && !n.Default {
			out[n.Interface] = network
		}
	}
	return out
}

// statusNetworks returns the networks in a pod's network-status by interface.
func (c *clientFinder) statusNetworks(pod string) map[string]service.Network {
	namespace, name, _ := strings.Cut(pod, "/")
	p, ok := c.pods.Known(namespace, name)
	if !ok {
		return nil
	}
	var all []struct {
		Name      string `json:"name"`
		Interface string `json:"interface"`
	}
	if json.Unmarshal([]byte(p.Annotations[netannotation.Status]), &all) != nil {
		return nil
	}
	out := map[string]service.Network{}
	for _, s := range all {
		if n, err := service.ParseNetwork(s.Name, namespace); err == nil {
			out[s.Interface] = n
		}
	}
	return out
}

// reportVFIO writes an event about each pod that cannot use the ClusterIPs of its network,
// since its VF is bound to vfio and no kernel is in its path.
func (c *clientFinder) reportVFIO(in table.Input) {
	served := map[service.Network]string{}
	for _, s := range in.Slices {
		served[s.Network] = s.Service
	}
	still := map[string]bool{}
	for _, a := range c.vfio {
		of, ok := served[a.network]
		if !ok {
			continue
		}
		key := a.owner.UID + " " + a.network.String()
		still[key] = true
		if c.reported[key] {
			continue
		}
		namespace, name, _ := strings.Cut(a.owner.Name, "/")
		c.pods.PodEvent(api.Pod{Namespace: namespace, Name: name, UID: a.podUID}, journal.Warning, reasons.ServiceUnreachable,
			fmt.Sprintf("network %s: the VF is bound to vfio-pci, so that no kernel can balance its connections: the ClusterIP of Service %s does not work in this pod; use its pods' addresses, by a headless Service", a.network, of))
	}
	c.reported = still
}
