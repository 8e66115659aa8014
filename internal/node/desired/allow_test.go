package desired

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/vf"
)

const allowText = `
pools:
- name: a
  allow:
    namespaces: [blue, team-*]
    namespaceSelector: {tier: gold}
    vlans: ["100-200", 5]
    vlanQoS: 3
    serviceVLANs: true
    trust: true
    spoofchkOff: true
    macs: ["02:00:5e:00:00:00/24", "02:aa:00:00:00:01"]
    addresses: [10.1.0.0/16]
    mtu: 2000
    maxTxRate: 100
    minTxRate: 10
- name: bare
  allow: {}
- name: open
`

func ptr[T any](v T) *T { return &v }

// I9: allow refuses each setting that it does not name. The error has the setting, the
// request and the allowed values.
func TestI9AllowChecksEachSetting(t *testing.T) {
	spec, err := Parse("host.yaml", []byte(allowText))
	if err != nil {
		t.Fatal(err)
	}
	full, bare, open := spec.Pools[0], spec.Pools[1], spec.Pools[2]
	mac := func(s string) *vf.MAC { m, _ := vf.ParseMAC(s); return &m }
	with := func(change func(*vf.Spec)) vf.Spec {
		s := vf.Spec{VLAN: &vf.VLAN{ID: 150}, MaxTxRate: ptr(uint32(100))}
		change(&s)
		return s
	}
	same := func(*vf.Spec) {}
	blue := Tenant{Namespace: "blue"}
	for name, tc := range map[string]struct {
		pool Pool
		who  Tenant
		want vf.Spec
		says string // empty: allowed
	}{
		"all that is named": {full, blue, with(func(s *vf.Spec) {
			s.Trust, s.SpoofChk, s.MTU, s.MinTxRate = ptr(true), ptr(false), ptr(2000), ptr(uint32(10))
			s.VLAN.QoS, s.VLAN.Proto = 3, vf.Dot1AD
		}), ""},
		"a pattern":            {full, Tenant{Namespace: "team-x"}, with(same), ""},
		"by label":             {full, Tenant{Namespace: "red", Labels: map[string]string{"tier": "gold"}}, with(same), ""},
		"another namespace":    {full, Tenant{Namespace: "red"}, with(same), "namespace red is not allowed: allow.namespaces has blue, team-*, those with label tier=gold (host.yaml:3)"},
		"labels not known":     {full, Tenant{Namespace: "red", Err: vf.ErrNotReady}, with(same), "the labels of namespace red are not known: not ready"},
		"a guest":              {full, Tenant{}, with(same), "an owner outside Kubernetes, which is in no namespace, is not allowed"},
		"a single VLAN":        {full, blue, with(func(s *vf.Spec) { s.VLAN.ID = 5 }), ""},
		"another VLAN":         {full, blue, with(func(s *vf.Spec) { s.VLAN.ID = 201 }), "vlan 201 is not allowed: allow.vlans has 100-200, 5"},
		"no VLAN":              {full, blue, with(func(s *vf.Spec) { s.VLAN = nil }), "vlan 0 is not allowed"},
		"a higher priority":    {full, blue, with(func(s *vf.Spec) { s.VLAN.QoS = 4 }), "vlanQoS 4 is not allowed: allow.vlanQoS has at most 3"},
		"bare: a priority":     {bare, blue, vf.Spec{VLAN: &vf.VLAN{QoS: 1}}, "vlanQoS 1 is not allowed: allow.vlanQoS has none"},
		"bare: a service VLAN": {bare, blue, vf.Spec{VLAN: &vf.VLAN{Proto: vf.Dot1AD}}, "vlanProto 802.1ad is not allowed: allow.serviceVLANs has 802.1q"},
		"a link state":         {bare, blue, vf.Spec{LinkState: ptr(vf.LinkEnable)}, ""},
		"a MAC by its begin":   {full, blue, with(func(s *vf.Spec) { s.MAC = mac("02:00:5e:12:34:56") }), ""},
		"a MAC":                {full, blue, with(func(s *vf.Spec) { s.MAC = mac("02:aa:00:00:00:01") }), ""},
		"another MAC":          {full, blue, with(func(s *vf.Spec) { s.MAC = mac("02:00:5f:00:00:01") }), "mac 02:00:5f:00:00:01 is not allowed: allow.macs has 02:00:5e:00:00:00/24, 02:aa:00:00:00:01"},
		"an address":           {full, blue, with(func(s *vf.Spec) { s.Addresses = []vf.Address{{Prefix: netip.MustParsePrefix("10.1.2.3/8")}} }), ""},
		"another address":      {full, blue, with(func(s *vf.Spec) { s.Addresses = []vf.Address{{Prefix: netip.MustParsePrefix("10.2.2.3/8")}} }), "address 10.2.2.3 is not allowed: allow.addresses has 10.1.0.0/16"},
		"a larger MTU":         {full, blue, with(func(s *vf.Spec) { s.MTU = ptr(2001) }), "mtu 2001 is not allowed: allow.mtu has at most 2000"},
		"a higher rate":        {full, blue, with(func(s *vf.Spec) { s.MaxTxRate = ptr(uint32(101)) }), "max_tx_rate 101 is not allowed: allow.maxTxRate has 1 to 100"},
		"no rate":              {full, blue, with(func(s *vf.Spec) { s.MaxTxRate = nil }), "a network without max_tx_rate is not allowed"},
		"a rate of 0":          {full, blue, with(func(s *vf.Spec) { s.MaxTxRate = ptr(uint32(0)) }), "a network without max_tx_rate is not allowed"},
		"more of a guarantee":  {full, blue, with(func(s *vf.Spec) { s.MinTxRate = ptr(uint32(11)) }), "min_tx_rate 11 is not allowed: allow.minTxRate has at most 10"},
		"bare: the default":    {bare, Tenant{}, vf.Spec{Trust: ptr(false), SpoofChk: ptr(true), VLAN: &vf.VLAN{}, MinTxRate: ptr(uint32(0)), MaxTxRate: ptr(uint32(7))}, ""},
		"bare: a VLAN":         {bare, blue, vf.Spec{VLAN: &vf.VLAN{ID: 1}}, "allow.vlans has 0"},
		"bare: trust":          {bare, blue, vf.Spec{Trust: ptr(true)}, "trust on is not allowed: allow.trust has off"},
		"bare: spoofchk":       {bare, blue, vf.Spec{SpoofChk: ptr(false)}, "spoofchk off is not allowed: allow.spoofchkOff has on"},
		"bare: a MAC":          {bare, blue, vf.Spec{MAC: mac("02:aa:00:00:00:01")}, "allow.macs has none"},
		"bare: an address":     {bare, blue, vf.Spec{Addresses: []vf.Address{{Prefix: netip.MustParsePrefix("10.1.2.3/8")}}}, "allow.addresses has none"},
		"bare: an MTU":         {bare, blue, vf.Spec{MTU: ptr(68)}, "allow.mtu has none"},
		"bare: a guarantee":    {bare, blue, vf.Spec{MinTxRate: ptr(uint32(1))}, "allow.minTxRate has none"},
		"no allow: everything": {open, Tenant{}, with(func(s *vf.Spec) { s.VLAN.ID, s.Trust, s.MTU = 4000, ptr(true), ptr(9000) }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.pool.Check(tc.who, tc.want)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
			if err != nil && !errors.Is(err, vf.ErrInvalid) && !errors.Is(err, tc.who.Err) {
				t.Errorf("%v wraps no sentinel", err)
			}
		})
	}
}

// The allow of a NodePolicy is parsed like that of host.yaml.
func TestAllowOfANodePolicy(t *testing.T) {
	file, err := Parse("host.yaml", []byte(allowText))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := FromPolicy("p", v1alpha1.NodePolicySpec{Pools: []v1alpha1.Pool{{Name: "a", Allow: &v1alpha1.Allow{
		Namespaces: []string{"blue", "team-*"}, NamespaceSelector: map[string]string{"tier": "gold"}, VLANs: []string{"100-200", "5"}, VLANQoS: ptr(int32(3)), ServiceVLANs: ptr(true),
		Trust: ptr(true), SpoofChkOff: ptr(true), MACs: []string{"02:00:5e:00:00:00/24", "02:aa:00:00:00:01"},
		Addresses: []string{"10.1.0.0/16"}, MTU: ptr(int32(2000)), MaxTxRate: ptr(int32(100)), MinTxRate: ptr(int32(10)),
	}}, {Name: "bare", Allow: &v1alpha1.Allow{}}}})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range policy.Pools {
		if d := cmp.Diff(file.Pools[i].Allow, p.Allow, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); d != "" {
			t.Error(d)
		}
	}
}

// The value of a label may be empty, in host.yaml and in a NodePolicy.
func TestAllowALabelWithoutValue(t *testing.T) {
	text := `{"pools": [{"name": "a", "allow": {"namespaceSelector": {"tier": ""}}}]}`
	file, err1 := Parse("host.yaml", []byte(text))
	policy, err2 := FromPolicy("p", json.RawMessage(text))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Spec{file, policy} {
		if d := cmp.Diff(map[string]string{"tier": ""}, s.Pools[0].Allow.NamespaceSelector); d != "" {
			t.Error(d)
		}
	}
}

// A mistake in allow is refused with an error that names its field. It never lets a pool serve more
// requests.
func TestAllowRefusesMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`{vlan: 5}`:                         "allow.vlan: unknown key",
		`{vlans: ["200-100"]}`:              "allow.vlans[0]",
		`{vlans: [4095]}`:                   "allow.vlans[0]",
		`{namespaces: []}`:                  "allow.namespaces: an empty list",
		`{namespaces: ["["]}`:               "allow.namespaces[0]",
		`{namespaceSelector: {}}`:           "allow.namespaceSelector: no label",
		`{namespaceSelector: {tier: }}`:     "allow.namespaceSelector.tier: nothing: want a label's value",
		`{namespaceSelector: {a: b, a: c}}`: "allow.namespaceSelector: a key is given twice",
		`{namespaces: ["a b"]}`:             "allow.namespaces[0]",
		`{macs: ["02:00:00:00:00/24"]}`:     "allow.macs[0]",
		`{macs: ["02:00:00:00:00:00/49"]}`:  "allow.macs[0]",
		`{addresses: [10.0.0.1]}`:           "allow.addresses[0]",
		`{mtu: 0}`:                          "allow.mtu",
		`{vlanQoS: 8}`:                      "allow.vlanQoS",
		`{serviceVLANs: 5}`:                 "allow.serviceVLANs",
		`{maxTxRate: 0}`:                    "allow.maxTxRate",
		``:                                  "allow: nothing: want a map",
	} {
		if _, err := Parse("host.yaml", []byte("pools:\n- name: a\n  allow: "+text+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
