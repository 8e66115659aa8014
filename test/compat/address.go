package compat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
	"github.com/culvert-net/culvert/internal/node/journal"
)

// addressInput has the arguments of a plugin that gives out addresses.
type addressInput struct {
	IPAM any `yaml:"ipam"`
	// Version of the CNI specification; 1.0.0 when empty.
	Version string `yaml:"version"`
	// Args is CNI_ARGS.
	Args string `yaml:"CNI_ARGS"`
	// IPs are args.cni.ips of the configuration.
	IPs []string `yaml:"ips"`
	// Runtime is runtimeConfig.
	Runtime map[string]any `yaml:"runtimeConfig"`
	// Pods are attached one after another; 1 when not given. The first pod requests addresses
	// by Args, IPs and Runtime. The others request none unless Each is set.
	Pods int `yaml:"pods"`
	// Each says that all pods request the addresses.
	Each bool `yaml:"each"`
	// Release is the number of a pod that is detached before the last one is attached.
	Release int `yaml:"release"`
}

// mostPods is how many VFs the node has.
const mostPods = 7

func (in addressInput) podCount() int { return max(in.Pods, 1) }

// networkConfig returns the configuration of the network for pod number n.
func (in addressInput) networkConfig(n int) ([]byte, error) {
	c := map[string]any{
		"cniVersion": in.Version, "name": "net", "type": "sriov", "ipam": in.IPAM,
		"capabilities": map[string]bool{"ips": true, "ipRanges": true},
	}
	if in.Version == "" {
		c["cniVersion"] = "1.0.0"
	}
	if n == 1 || in.Each {
		if in.IPs != nil {
			c["args"] = map[string]any{"cni": map[string]any{"ips": in.IPs}}
		}
		if in.Runtime != nil {
			c["runtimeConfig"] = in.Runtime
		}
	}
	return json.Marshal(c)
}

// podRequest returns the call for pod number n.
func (in addressInput) podRequest(command string, n int) (api.CNIRequest, error) {
	config, err := in.networkConfig(n)
	r := api.CNIRequest{Command: command, ContainerID: fmt.Sprintf("pod%d", n), IfName: "net1", Netns: netnsOf(n), Config: config, Args: "IgnoreUnknown=1"}
	if in.Args != "" && (n == 1 || in.Each) {
		r.Args += ";" + in.Args
	}
	return r, err
}

func netnsOf(n int) string { return fmt.Sprintf("/run/netns/pod%d", n) }

// tryAddresses attaches pods to a network and returns the addresses and routes of each. It runs
// Culvert's CNI handler over a kernel in memory.
func tryAddresses(input *yaml.Node) (_ Outcome, err error) {
	var in addressInput
	if err := input.Decode(&in); err != nil {
		return nil, err
	}
	h, closeNode, err := newNode()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeNode()) }()
	call := func(command string, n int) ([]byte, error) {
		r, err := in.podRequest(command, n)
		if err != nil {
			return nil, err
		}
		return h.Run(context.Background(), cni.NewCall(r, cni.ParseArguments(r.Args)), nil)
	}
	return in.attachPods(func(n int) ([]byte, error) { return call("ADD", n) }, func(n int) error { _, err := call("DEL", n); return err })
}

// attachPods attaches the pods through the given functions. When no pod has an address, it
// returns the error of the last pod.
func (in addressInput) attachPods(add func(pod int) ([]byte, error), del func(pod int) error) (Outcome, error) {
	var (
		out     Outcome
		refusal error
		served  bool
	)
	for n := 1; n <= in.podCount(); n++ {
		if in.Release != 0 && n == in.podCount() {
			if err := del(in.Release); err != nil {
				return nil, err
			}
		}
		result, err := add(n)
		if err != nil {
			out, refusal = append(out, Refused), err
			continue
		}
		line, err := describeResult(result)
		if err != nil {
			return nil, err
		}
		out, served = append(out, line), true
	}
	if !served {
		return nil, refusal
	}
	return out, nil
}

// newNode returns a node with a PF of seven VFs and a network namespace for each.
func newNode() (*cni.Handler, func() error, error) {
	dir, err := os.MkdirTemp("", "compat")
	if err != nil {
		return nil, nil, err
	}
	ledger, err := journal.Open(filepath.Join(dir, "ledger"), journal.Options{NoSync: true})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	k := fake.New(fake.IGB, 1)
	for n := 1; n <= mostPods; n++ {
		k.AddNetns(netnsOf(n))
	}
	n := node.New(node.Config{Kernel: k, Ledger: ledger, BootID: "b"})
	closeNode := func() error {
		n.VFs.Wait()
		return errors.Join(ledger.Close(), os.RemoveAll(dir))
	}
	spec, err := desired.Parse("host.yaml", fmt.Appendf(nil, "pfs: [{name: '*', vfs: %d}]\npools: [{name: all}]\n", mostPods))
	if err != nil {
		return nil, nil, errors.Join(err, closeNode())
	}
	n.SetSpec(spec)
	if err := errors.Join(n.Start(context.Background()), n.Reconciler.Pass(context.Background())); err != nil {
		return nil, nil, errors.Join(err, closeNode())
	}
	return cni.New(cni.Parts{Engine: n.Engine, Resets: n.Resets, VFs: n.VFs}), closeNode, nil
}

// describeResult lists the addresses and routes of a CNI result. A route without a gateway gets
// that of the first address of its family, as in ipam.ConfigureIface of the CNI project's
// plugins.
func describeResult(raw []byte) (string, error) {
	var result struct {
		IPs      []address
		IP4, IP6 *address // versions before 0.3.0
		Routes   []route
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return "", fmt.Errorf("result %s: %w", raw, err)
	}
	for _, old := range []*address{result.IP4, result.IP6} {
		if old != nil {
			old.Address = old.IP
			result.IPs, result.Routes = append(result.IPs, *old), append(result.Routes, old.Routes...)
		}
	}
	var out []string
	gateways := map[bool]string{} // by whether they are IPv4
	for _, a := range result.IPs {
		text, is4 := a.Address.String(), a.Address.Addr().Unmap().Is4()
		if a.Gateway != "" {
			text += " gateway " + a.Gateway
			gateways[is4] = cmp.Or(gateways[is4], a.Gateway)
		}
		out = append(out, text)
	}
	for _, r := range result.Routes {
		out = append(out, r.describeRoute(gateways))
	}
	if len(out) == 0 {
		return "no address", nil
	}
	return strings.Join(out, ", "), nil
}

// address is one of a CNI result.
type address struct {
	Address netip.Prefix
	Gateway string
	// IP and Routes are fields of versions before 0.3.0.
	IP     netip.Prefix
	Routes []route
}

// route is one of a CNI result.
type route struct {
	Dst                          netip.Prefix
	GW                           string
	MTU, AdvMSS, Priority, Table int
	Scope                        *int
}

func (r route) describeRoute(gateways map[bool]string) string {
	text := "route " + r.Dst.String()
	if r.GW == "" && r.Scope == nil {
		r.GW = gateways[r.Dst.Addr().Unmap().Is4()]
	}
	if r.GW != "" {
		text += " via " + r.GW
	}
	for _, more := range []struct {
		name  string
		value int
	}{{"mtu", r.MTU}, {"advmss", r.AdvMSS}, {"priority", r.Priority}, {"table", r.Table}} {
		if more.value != 0 {
			text += fmt.Sprintf(" %s %d", more.name, more.value)
		}
	}
	if r.Scope != nil {
		text += fmt.Sprintf(" scope %d", *r.Scope)
	}
	return text
}
