package cni

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// podArgs is the CNI_ARGS of pod d/a, which clusterObjects has.
const podArgs = "IgnoreUnknown=true;K8S_POD_NAMESPACE=d;K8S_POD_NAME=a;K8S_POD_UID=u1"

// clusterObjects is a cluster with the pod d/a and some network attachment definitions.
type clusterObjects struct {
	events
	annotations map[string]string // of the pod
	networks    map[string]string // spec.config by namespace/name
	down        bool              // the API server does not answer; the networks are cached
}

func (c *clusterObjects) Pod(_ context.Context, namespace, name, uid string) (api.Pod, error) {
	p := api.Pod{Namespace: namespace, Name: name, UID: uid, Annotations: c.annotations}
	if c.down {
		return api.Pod{}, fmt.Errorf("pod %s: %w", p, vf.ErrNotReady)
	}
	return p, nil
}

func (c *clusterObjects) Network(_ context.Context, namespace, name string) (api.NetworkDefinition, error) {
	config, ok := c.networks[namespace+"/"+name]
	switch {
	case ok:
		return api.NetworkDefinition{Namespace: namespace, Name: name, Config: config}, nil
	case c.down:
		return api.NetworkDefinition{}, fmt.Errorf("NetworkAttachmentDefinition %s/%s: %w", namespace, name, vf.ErrNotReady)
	}
	return api.NetworkDefinition{}, fmt.Errorf("NetworkAttachmentDefinition %s/%s: %w", namespace, name, vf.ErrNotFound)
}

// requestEngine remembers the last request for a VF.
type requestEngine struct {
	*memory
	last attach.Request
}

func (e *requestEngine) Attach(ctx context.Context, req attach.Request) (journal.Record, error) {
	e.last = req
	return e.memory.Attach(ctx, req)
}

// poolOfADD carries out an ADD. It returns the request for the VF, and a text: the pool and
// the addresses of the VF, or the error of the ADD.
func poolOfADD(t *testing.T, c cluster, p pools, r api.CNIRequest) (string, attach.Request) {
	t.Helper()
	e := &requestEngine{memory: newMemory(1)}
	h := New(partsOf(e))
	h.Cluster, h.Pools = c, p
	if _, err := h.Run(t.Context(), callOf(r), nil); err != nil {
		if len(e.leases) > 0 {
			t.Errorf("the ADD failed and left a lease: %s", e)
		}
		return err.Error(), e.last
	}
	got := fmt.Sprintf("pool %q:", e.last.AddressPool)
	for _, rec := range e.leases {
		for _, a := range rec.Lease.Wanted.Addresses {
			got += " " + a.Prefix.String()
		}
	}
	return got, e.last
}

// poolConfig is a network of CNI name same with an ipam section.
func poolConfig(section string) string {
	return `{"cniVersion":"1.0.0","name":"same","type":"sriov","ipam":` + section + `}`
}

// Without a cluster there is no other network whose pool could be shared.
func TestPoolOfNeedsACluster(t *testing.T) {
	config := `{"cniVersion":"1.0.0","name":"n","type":"culvert","ipam":{"type":"culvert","poolOf":"red/net"}}`
	got := refused(t, serve(t, newMemory(1), invocation("ADD", config)))
	if !strings.Contains(got, "only the network of a NetworkAttachmentDefinition can share a pool") {
		t.Error(got)
	}
}

// I4: networks of two namespaces with one CNI name have a pool each, whose ID is the definition's
// namespace/name. Culvert refuses a request of Multus if the pod's annotations do not say which
// definition it is of: a wrong pool would give an address twice.
func TestI4PoolOfTheDefinition(t *testing.T) {
	const (
		open    = "network same (net3) of pod d/a: not ready: its annotation does not say which NetworkAttachmentDefinition that is: give each of its networks an interface name, e.g. same@vf1"
		red     = `pool "red/net": 10.1.0.2/29`
		blue    = `pool "blue/net": 10.1.0.2/29`
		cniName = `pool "": 10.1.0.2/29`
	)
	changed := func(ifName string) string {
		return "network same (" + ifName + ") of pod d/a: not ready: NetworkAttachmentDefinition d/other has been changed since Multus read it; the kubelet tries again"
	}
	config := poolConfig(`{"type":"host-local","subnet":"10.1.0.0/29"}`)
	networks := map[string]string{
		"d/unsorted": poolConfig(`{"type":"host-local","subnet":"10.1.0.0/29","range_start":"b","range_end":"a","one": [1, 2],"rangeEnd":"10.1.0.6","rangeEnd":"10.1.0.5"}`),
		"red/net":    config, "blue/net": config, "kube-system/net": config, "d/file": " ",
		"d/broken": "{", "d/twin": strings.Replace(config, "same", "twin", 1), "d/other": poolConfig(`{"type":"host-local","subnet":"10.1.0.0/29","gateway":"10.1.0.6"}`),
	}
	for name, tc := range map[string]struct {
		definition, annotation, defaults, ifName, args, config string
		down                                                   bool
		want                                                   string
	}{
		"culvertd read the definition":        {definition: "red/net", want: red},
		"the definition is a file":            {definition: "d/file", want: cniName},
		"the definition is gone":              {definition: "gone/net", want: "NetworkAttachmentDefinition gone/net: not found"},
		"by its place":                        {annotation: "red/net,blue/net", ifName: "net2", want: blue},
		"by its interface":                    {annotation: "red/net,blue/net@x", ifName: "x", want: blue},
		"the default network":                 {annotation: "red/net", defaults: "net", ifName: "eth0", want: `pool "kube-system/net": 10.1.0.2/29`},
		"the only one with its configuration": {annotation: "red/net,d/other", ifName: "net3", want: red},
		"its own, as Multus writes it":        {annotation: "d/unsorted@x", ifName: "x", config: poolConfig(`{"one":[1,2],"rangeEnd":"10.1.0.5","range_end":"a","range_start":"b","subnet":"10.1.0.0/29","type":"host-local"}`), want: `pool "d/unsorted": 10.1.0.2/29`},
		"others cannot be read":               {annotation: "gone/net,d/broken,red/net", ifName: "net9", want: red},
		"one definition, asked for twice":     {annotation: "red/net,red/net", ifName: "net3", want: red},
		"two may be meant":                    {annotation: "red/net,blue/net", ifName: "net3", want: open},
		"it was changed a moment ago":         {annotation: "d/other@x", ifName: "x", want: changed("x")},
		"it was changed, and another has it":  {annotation: "d/other@x,blue/net@y", ifName: "x", want: changed("x")},
		"the default, and another has it":     {annotation: "blue/net@y", defaults: "d/other", ifName: "eth0", want: changed("eth0")},
		"it was deleted a moment ago":         {annotation: "gone/net", ifName: "net1", want: "NetworkAttachmentDefinition gone/net: not found"},
		"it is a file":                        {annotation: "d/file", ifName: "net1", want: cniName},
		"Multus' own network":                 {annotation: "d/other", ifName: "net2", want: cniName},
		"another name, its configuration":     {annotation: "d/twin", ifName: "net2", want: cniName},
		"no annotation":                       {ifName: "net1", want: cniName},
		"an annotation without meaning":       {annotation: "@", ifName: "net1", want: `annotation k8s.v1.cni.cncf.io/networks: element 1 ("@"): invalid: the network's name is missing: want [namespace/]name[@interface]`},
		"a default without meaning":           {defaults: "B", ifName: "net1", want: `annotation v1.multus-cni.io/default-network: element 1 ("B"): invalid: "B" is no name of a network: want lower-case letters, digits, '-' and '.', a letter or digit at both ends`},
		"the API server does not answer":      {annotation: "red/net", ifName: "net1", down: true, want: "pod d/a: not ready"},
		"a container that is no pod":          {annotation: "red/net", ifName: "net1", args: "IgnoreUnknown=1", want: cniName},
		"whereabouts has its own pools":       {definition: "red/net", config: poolConfig(`{"type":"whereabouts","range":"10.1.0.0/29","network_name":"x"}`), want: `pool "whereabouts:x": 10.1.0.1/29`},
		"no addresses, and no cluster asked":  {definition: "gone/net", config: poolConfig(`{}`), want: `pool "":`},
	} {
		t.Run(name, func(t *testing.T) {
			c := &clusterObjects{networks: networks, down: tc.down, annotations: map[string]string{
				"k8s.v1.cni.cncf.io/networks": tc.annotation, "v1.multus-cni.io/default-network": tc.defaults,
			}}
			r := invocation(cmdAdd, config)
			r.Definition, r.Args = tc.definition, podArgs
			for to, value := range map[*string]string{&r.IfName: tc.ifName, &r.Args: tc.args} {
				if value != "" {
					*to = value
				}
			}
			if tc.config != "" {
				r.Config = []byte(tc.config)
			}
			got, _ := poolOfADD(t, c, nil, r)
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

// I9: a network has the addresses of another network's pool only if the author of that one names
// its namespace. To another namespace every refusal reads the same: it does not say whether the
// network is there, can be read or has addresses.
func TestI9SharedPoolNeedsConsent(t *testing.T) {
	const (
		given    = `pool "owner/net": 10.1.0.2/29`
		foreign  = "network d/net: ipam.poolOf owner/net: invalid: that network does not share its addresses with namespace d: add the namespace to its ipam.sharedWith"
		ofOwners = "network owner/second: ipam.poolOf owner/net: "
	)
	shares := func(with string) string {
		return poolConfig(`{"type":"host-local","subnet":"10.1.0.0/29","sharedWith":` + with + `}`)
	}
	chained := `{"cniVersion":"1.0.0","name":"same","plugins":[{"type":"sriov"},{"type":"culvert","ipam":{"type":"culvert","addressPool":"p"}},
		{"type":"culvert","ipam":{"type":"culvert","subnet":"10.1.0.0/29"}}]}`
	for name, tc := range map[string]struct {
		joining, owner string
		absent, down   bool
		want           string
	}{
		"its author names the namespace": {joining: "d/net", owner: shares(`["x","d"]`), want: given},
		"its author names another":       {joining: "d/net", owner: shares(`["x","dd"]`), want: foreign},
		"its author names none":          {joining: "d/net", owner: shares(`[]`), want: foreign},
		"its author names all":           {joining: "d/net", owner: shares(`["*"]`), want: foreign},
		"it is not there":                {joining: "d/net", absent: true, want: foreign},
		"it cannot be read":              {joining: "d/net", owner: "{", want: foreign},
		"it is a file":                   {joining: "d/net", owner: "", want: foreign},
		"it has no addresses":            {joining: "d/net", owner: poolConfig(`{}`), want: foreign},
		"it shares a pool itself":        {joining: "d/net", owner: poolConfig(`{"type":"culvert","poolOf":"d/net"}`), want: foreign},
		"the API server does not answer": {joining: "d/net", absent: true, down: true, want: "network d/net: ipam.poolOf owner/net: NetworkAttachmentDefinition owner/net: not ready"},

		"of the same namespace":                {joining: "owner/second", owner: shares(`[]`), want: given},
		"of the same, its third plugin has it": {joining: "owner/second", owner: chained, want: given},
		"of the same, not there":               {joining: "owner/second", absent: true, want: ofOwners + "NetworkAttachmentDefinition owner/net: not found"},
		"of the same, without addresses":       {joining: "owner/second", owner: poolConfig(`{}`), want: ofOwners + "invalid: that network has no addresses of its own: name the network that has the range"},
		"of the same, shares one itself":       {joining: "owner/second", owner: poolConfig(`{"type":"culvert","poolOf":"x/y"}`), want: ofOwners + "invalid: that network has no addresses of its own: name the network that has the range"},
		"of the same, cannot be read":          {joining: "owner/second", owner: shares(`["*"]`), want: ofOwners + `ipam.sharedWith ["*"]: element 0: "*": want the name of a namespace`},
	} {
		t.Run(name, func(t *testing.T) {
			config := poolConfig(`{"type":"culvert","poolOf":"owner/net"}`)
			c := &clusterObjects{networks: map[string]string{tc.joining: config, "owner/net": tc.owner}, down: tc.down}
			if tc.absent {
				delete(c.networks, "owner/net")
			}
			r := invocation(cmdAdd, config)
			r.Definition, r.Args = tc.joining, podArgs
			got, _ := poolOfADD(t, c, nil, r)
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

// storagePool is the AddressPool storage, which namespace red may use.
type storagePool struct{ keep time.Duration }

func (p storagePool) Section(c ipam.Config, namespace string) (ipam.Config, string, error) {
	if c.AddressPool != "storage" || namespace != "red" {
		return c, "", fmt.Errorf("AddressPool %s: %w: namespace %s may not use it", c.AddressPool, vf.ErrInvalid, namespace)
	}
	pool, err := ipam.ParseSubnets([]ipam.SubnetText{{CIDR: "10.9.0.0/24"}, {CIDR: "fd09::/64"}})
	if err != nil {
		return c, "", err
	}
	pool.KeepAtMost = p.keep
	c, err = c.WithPool(pool)
	return c, "pool:storage", err
}

// A network that names an AddressPool has the addresses and the pool of the AddressPool, and no
// pool by its own name. The namespace of the definition, not the pod's, decides whether the network
// may use the AddressPool.
func TestAddressPoolOfANetwork(t *testing.T) {
	for name, tc := range map[string]struct {
		definition, more string
		p                pools
		want             string
	}{
		"it may":          {"red/net", "", storagePool{}, `pool "pool:storage": 10.9.0.2/24 fd09::2/64`},
		"by name":         {"red/net", `,"runtimeConfig":{"ips":["10.9.0.77"]}`, storagePool{}, `pool "pool:storage": 10.9.0.77/24 fd09::2/64`},
		"not of the pool": {"red/net", `,"runtimeConfig":{"ips":["10.8.0.77"]}`, storagePool{}, `address 10.8.0.77: invalid: in none of the network's ranges (10.9.0.1-10.9.0.254, fd09::1-fd09::ffff:ffff:ffff:ffff)`},
		"it may not":      {"d/net", "", storagePool{}, "network d/net: AddressPool storage: invalid: namespace d may not use it"},
		"no cluster":      {"", "", nil, "network same: ipam.addressPool storage: invalid: culvertd is not connected to a cluster, which has the AddressPools: give the network its own range"},
	} {
		t.Run(name, func(t *testing.T) {
			config := strings.TrimSuffix(poolConfig(`{"type":"culvert","addressPool":"storage"}`), "}") + tc.more + "}"
			var c cluster
			if tc.p != nil {
				c = &clusterObjects{networks: map[string]string{tc.definition: config}}
			}
			r := invocation(cmdAdd, config)
			r.Definition, r.Args = tc.definition, podArgs
			got, _ := poolOfADD(t, c, tc.p, r)
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

// The annotation culvert.dev/keep-address of a pod counts up to the time that the AddressPool
// allows, and an event reports a longer time. A text that is no duration is refused, and the error
// has the text.
func TestPodKeepsTheAddressOfItsName(t *testing.T) {
	const kept = `pool "pool:storage": 10.9.0.2/24 fd09::2/64`
	for name, tc := range map[string]struct {
		annotation, args string
		atMost           time.Duration
		down             bool
		keep             time.Duration
		want             string
		events           []string
	}{
		"not asked for":       {"", podArgs, time.Hour, false, 0, kept, nil},
		"less than allowed":   {"10m", podArgs, time.Hour, false, 10 * time.Minute, kept, nil},
		"as long as allowed":  {"1h", podArgs, time.Hour, false, time.Hour, kept, nil},
		"longer than allowed": {"2h", podArgs, time.Hour, false, time.Hour, kept, []string{"u1 AddressKeptShorter AddressPool storage keeps the pod's address for 1h0m0s after it has ended, and not for 2h0m0s: raise keepAddress of the pool"}},
		"the pool keeps none": {"10m", podArgs, 0, false, 0, kept, []string{"u1 AddressKeptShorter AddressPool storage keeps the pod's address for 0s after it has ended, and not for 10m0s: raise keepAddress of the pool"}},
		"no time":             {"ever\n", podArgs, time.Hour, false, 0, `pod d/a: annotation culvert.dev/keep-address "ever\n": invalid: want a time such as 24h`, nil},
		"less than none":      {"-1h", podArgs, time.Hour, false, 0, `pod d/a: annotation culvert.dev/keep-address "-1h": invalid: want a time such as 24h`, nil},
		"no API server":       {"1h", podArgs, time.Hour, true, 0, "pod d/a: not ready", nil},
		"no pod":              {"1h", "IgnoreUnknown=1", time.Hour, false, 0, kept, nil},
	} {
		t.Run(name, func(t *testing.T) {
			config := poolConfig(`{"type":"culvert","addressPool":"storage"}`)
			c := &clusterObjects{
				networks: map[string]string{"red/net": config}, down: tc.down,
				annotations: map[string]string{"culvert.dev/keep-address": tc.annotation},
			}
			r := invocation(cmdAdd, config)
			r.Definition, r.Args = "red/net", tc.args
			got, req := poolOfADD(t, c, storagePool{tc.atMost}, r)
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
			if req.KeepAddress != tc.keep {
				t.Errorf("the address is kept for %s, want %s", req.KeepAddress, tc.keep)
			}
			if d := cmp.Diff(tc.events, c.texts); d != "" {
				t.Errorf("events, -want +got\n%s", d)
			}
		})
	}
}

// The definition of a whereabouts network is found by the section that Culvert serves in its place.
// A definition with another name or range is not that of the network.
func TestWhereaboutsNetworkHasItsDefinition(t *testing.T) {
	const text = `{"cniVersion":"1.0.0","name":"n","type":"sriov","ipam":{"type":"whereabouts","range":"10.5.0.0/24"}}`
	c, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := New(partsOf(newMemory(1))).ownSection(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{text: true, strings.Replace(text, "10.5", "10.6", 1): false, strings.Replace(text, `"n"`, `"m"`, 1): false} {
		if got := New(Parts{}).hasSection(api.NetworkDefinition{Namespace: "d", Name: "x", Config: text}, c); got != want {
			t.Errorf("%s has the section: %t", text, got)
		}
	}
}
