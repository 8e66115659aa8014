package claim

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/vf"
)

// with returns a configuration with more keys.
func with(keys string) string {
	return `{"apiVersion":"culvert.dev/v1alpha1","kind":"VFConfig"` + strings.TrimSuffix(","+keys, ",") + `}`
}

func TestParse(t *testing.T) {
	const plugin = `{"cniVersion":"1.1.0","name":"claim","type":"culvert"}`
	for raw, want := range map[string]Config{
		with(``):                                        {Plugin: []byte(plugin)},
		with(`"interface":"sriov0"`):                    {Plugin: []byte(plugin), Interface: "sriov0"},
		with(`"type":"culvert","network":null`):         {Plugin: []byte(plugin)},
		with(`"network":"blue"`):                        {Network: "blue"},
		with(`"network":"red/blue","interface":"net7"`): {Network: "red/blue", Interface: "net7"},
		with(`"vlan":7,"trust":"on","ipam":{"type":"culvert","addressPool":"office"}`): {
			Plugin: []byte(`{"cniVersion":"1.1.0","ipam":{"type":"culvert","addressPool":"office"},"name":"claim","trust":"on","type":"culvert","vlan":7}`),
		},
		with(`"ipam":{"type":"host-local","poolOf":"red/blue"}`): {
			Plugin: []byte(`{"cniVersion":"1.1.0","ipam":{"type":"host-local","poolOf":"red/blue"},"name":"claim","type":"culvert"}`),
		},
	} {
		got, err := Parse([]byte(raw))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", raw, err, diff)
		}
	}
}

// A configuration that is wrong is refused with field, value and what would work.
func TestParseRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		`[]`:                                    `configuration []: want a JSON object`,
		`{"kind":"VFConfig"}`:                   `apiVersion: want culvert.dev/v1alpha1`,
		`{"apiVersion":"v1","kind":"VfConfig"}`: `apiVersion v1: want culvert.dev/v1alpha1; kind VfConfig: want VFConfig`,
		with(`"vlna":7`):                        `vlna: did you mean vlan? (unknown key, value 7)`,
		with(`"netwrok":"a"`):                   `netwrok: did you mean network? (unknown key, value a)`,
		with(`"vlan":4095`):                     `vlan 4095: want a number between 0 and 4094`,
		with(`"mtu":"9000"`):                    `mtu 9000: want a whole number between`,
		with(`"vlan":7,"vlan":8`):               `vlan 7: given twice`,
		with(`"network":"a/b/c"`):               `want the NetworkAttachmentDefinition as name or namespace/name`,
		with(`"network":"../x"`):                `network: invalid: want the NetworkAttachmentDefinition as name or namespace/name: ".." is no namespace`,
		with(`"network":"a@net1"`):              `is no name of a network`,
		with(`"network":"a","vlan":7`):          `vlan 7: the network that the key network names has its own settings`,
		with(`"interface":"a/b"`):               `interface: "a/b": invalid: want the name of an interface, such as net1`,
		with(`"interface":"0123456789abcdef"`):  `of at most 15 bytes`,
		with(`"type":"sriov"`):                  `type sriov: want culvert`,
		with(`"deviceID":"0000:3b:02.0"`):       `deviceID "0000:3b:02.0": not in a claim: the claim has its device already`,
		with(`"pool":"x"`):                      `pool x: not in a claim: select the VF in the request of the claim`,
		with(`"name":"x"`):                      `name x: not in a claim`,
		with(`"prevResult":{}`):                 `prevResult: unknown key`,
		with(`"cni.dev/attachments":[]`):        `cni.dev/attachments: unknown key`,
		with(`"ipam":{"type":"host-local","subnet":"10.0.0.0/24"}`):              `ipam {"type":"host-local","subnet":"10.0.0.0/24"}: a claim has no range of its own: take addresses of an AddressPool (addressPool)`,
		with(`"ipam":{"type":"static","addresses":[{"address":"10.0.0.1/24"}]}`): `a claim has no range of its own`,
		with(`"ipam":{"type":"whereabouts","range":"10.0.0.0/24"}`):              `a claim has no range of its own`,
		with(`"ipam":{"type":"host-local","adressPool":"x"}`):                    `ipam.adressPool: did you mean addressPool?`,
		with(`"guard":"ip"`):                                   `guard ip: needs an ipam section`,
		with(`"bond":{"links":1}`):                             `bond.links 1: want a number between 2`,
		with(`"dns":"` + strings.Repeat("x", MaxConfig) + `"`): `bytes; want at most 10240`,
	} {
		_, err := Parse([]byte(raw))
		if !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: %v\nwant %s", raw, err, want)
		}
	}
}

func TestNetworkIn(t *testing.T) {
	for text, want := range map[string][2]string{"blue": {"d", "blue"}, "red/blue": {"red", "blue"}} {
		if ns, name := (Config{Network: text}).NetworkIn("d"); ns != want[0] || name != want[1] {
			t.Errorf("network %s of a claim in d is %s/%s", text, ns, name)
		}
	}
}

// A configuration that is accepted has a network that a node can read, and none of another owner's
// addresses. Any other one is refused with a documented error that is short and printable.
func FuzzParse(f *testing.F) {
	for _, keys := range []string{``, `"network":"a/b"`, `"interface":"net1","vlan":7`, `"bond":{"links":2}`, `"ipam":{"type":"culvert","addressPool":"a"}`, `"Network":"a"`, `"vlan":1e1`} {
		f.Add(with(keys))
	}
	f.Add(`{"apiVersion":"\u001b[2J"}`)
	f.Fuzz(func(t *testing.T, raw string) {
		c, err := Parse([]byte(raw))
		if err != nil {
			if !errors.Is(err, vf.ErrInvalid) || len(err.Error()) > 32<<10 || strings.ContainsRune(err.Error(), '\x1b') {
				t.Fatalf("undocumented error %v", err)
			}
			return
		}
		if (c.Network == "") == (c.Plugin == nil) || c.Interface != "" && !config.IsIfName(c.Interface) {
			t.Fatalf("%+v", c)
		}
		if c.Plugin == nil {
			return
		}
		p, err := config.Parse(c.Plugin)
		if err != nil || !p.VF.IsZero() || p.Pool != "" || len(p.VFs) > 0 || p.Prev != nil || !p.IPAM.IsZero() && p.IPAM.AddressPool == "" && p.IPAM.PoolOf == "" {
			t.Fatalf("plugin %s: %v", c.Plugin, err)
		}
	})
}
