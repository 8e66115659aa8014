package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/vf"
)

var byValue = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmpopts.EquateEmpty(),
}

func ptr[T any](v T) *T { return &v }

// with makes a configuration of version 1.1.0 with more keys.
func with(keys string) string {
	if keys != "" {
		keys = "," + keys
	}
	return `{"cniVersion":"1.1.0","name":"net","type":"sriov"` + keys + `}`
}

// strict is with for a network of type culvert.
func strict(keys string) string {
	return strings.Replace(with(keys), `"type":"sriov"`, `"type":"culvert"`, 1)
}

func TestParse(t *testing.T) {
	pci := vf.PCIAddr{Bus: 0x3b, Device: 1, Function: 2}
	for _, tc := range []struct {
		name, raw string
		want      Config
	}{
		{"nothing but the network", with(``), Config{}},
		{"what people add and we leave alone", with(`"logLevel":"debug","logFile":"/tmp/x","capabilities":{"mac":true},"cniVersions":["1.0.0"],"cni.dev/future":1,"args":{"labels":{}},"runtimeConfig":{"portMappings":[],"CNIDeviceInfoFile":"/x"},"ipam":{}`), Config{}},
		{
			"every setting",
			with(`"pool":"intel.com/a","vlan":100,"vlanQoS":5,"vlanProto":"802.1ad","mac":"02:00:00:00:00:01","spoofchk":"off","trust":"on","link_state":"enable","min_tx_rate":10,"max_tx_rate":100,"mtu":9000,
			"dns":{"nameservers":["10.0.0.53"]},"disableCheck":true,"disableGC":true`),
			Config{
				Pool: "intel.com/a", DNS: ipam.DNS{Nameservers: []string{"10.0.0.53"}}, DisableCheck: true, DisableGC: true,
				Spec: vf.Spec{
					VLAN: &vf.VLAN{ID: 100, QoS: 5, Proto: vf.Dot1AD}, MAC: &vf.MAC{2, 0, 0, 0, 0, 1}, SpoofChk: ptr(false), Trust: ptr(true),
					LinkState: ptr(vf.LinkEnable), MinTxRate: ptr[uint32](10), MaxTxRate: ptr[uint32](100), MTU: ptr(9000),
				},
			},
		},
		{"flags as texts, as libcni reads them", with(`"disableCheck":"True","disableGC":"false"`), Config{DisableCheck: true}},
		{"a segment", with(`"segment":"storage"`), Config{Segment: "storage"}},
		{"left empty by a template", with(`"pool":"","segment":"","deviceID":"","mac":"","spoofchk":"","trust":"","link_state":"","vlanProto":"","ipam":{},"runtimeConfig":{"mac":"","deviceID":""}`), Config{}},
		{"no VLAN, by name", with(`"vlan":0,"vlanProto":"802.1q","vlanQoS":0`), Config{Spec: vf.Spec{VLAN: &vf.VLAN{}}}},
		{"a minimum under no limit", with(`"min_tx_rate":10,"max_tx_rate":0`), Config{Spec: vf.Spec{MinTxRate: ptr[uint32](10), MaxTxRate: ptr[uint32](0)}}},
		{"the device as Multus gives it", with(`"deviceID":"0000:3b:01.2","pciBusID":"0000:3b:01.2"`), Config{VF: pci}},
		{"the device as a runtime gives it", with(`"runtimeConfig":{"deviceID":"3b:01.2"}`), Config{VF: pci}},
		{
			"wishes of the runtime and of args",
			with(`"args":{"cni":{"ips":["10.0.0.7"]}},"runtimeConfig":{"mac":"02:00:00:00:00:09","ips":["10.0.0.8/24"]}`),
			Config{MAC: &vf.MAC{2, 0, 0, 0, 0, 9}, IPs: []string{"10.0.0.8/24"}, ArgIPs: []string{"10.0.0.7"}},
		},
		{
			"args in any case", with(`"args":{"cni":{"IPs":["10.0.0.7"],"Mac":"02:00:00:00:00:09"}}`),
			Config{ArgIPs: []string{"10.0.0.7"}, ArgMACs: []vf.MAC{{2, 0, 0, 0, 0, 9}}},
		},
		{"args alone", with(`"args":{"cni":{"ips":["10.0.0.7"]}}`), Config{ArgIPs: []string{"10.0.0.7"}}},
		{
			"GC",
			with(`"cni.dev/valid-attachments":[{"containerID":"a","ifname":"net1"}],"cni.dev/attachments":[]`),
			Config{Valid: []vf.Owner{{UID: "a", Interface: "net1"}}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.Version, tc.want.Name, tc.want.Type, tc.want.Lenient = "1.1.0", "net", "sriov", true
			got, err := Parse([]byte(tc.raw))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got, byValue); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

func TestNobodyValidIsNotUnknown(t *testing.T) {
	for raw, known := range map[string]bool{with(``): false, with(`"cni.dev/valid-attachments":[]`): true, with(`"cni.dev/valid-attachments":null`): true} {
		c, err := Parse([]byte(raw))
		if err != nil || (c.Valid != nil) != known {
			t.Errorf("%s: %v, valid %#v", raw, err, c.Valid)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		``:   `configuration : not JSON: unexpected end of JSON input at byte 0`,
		`[]`: `configuration []: want a JSON object`,
		`{"cniVersion":"2.0.0","name":"net","type":"sriov"}`:                `cniVersion "2.0.0": not served; want one of 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0`,
		`{"cniVersion":"1.1.0","name":"a/b","type":"vlan"}`:                 `name a/b: want the network's name: a letter or digit, then letters, digits, '_', '.' and '-', at most 253; type vlan: want culvert or sriov`,
		strict(`"max-tx-rate":100`):                                         `max-tx-rate: did you mean max_tx_rate? (unknown key, value 100)`,
		with(`"bond":{}`):                                                   `bond {}: bonds of VFs are served in networks of type culvert: set type to culvert`,
		with(`"vlan":4095`):                                                 `vlan 4095: want a number between 0 and 4094`,
		with(`"vlan":"100"`):                                                `vlan 100: want a whole number between 0 and 4094, without quotes`,
		with(`"vlan":1.5`):                                                  `vlan 1.5: want a whole number between 0 and 4094, without quotes`,
		with(`"vlanQoS":3`):                                                 `vlanQoS 3: needs a vlan; add "vlan": 0 for none`,
		with(`"vlan":0,"vlanQoS":3`):                                        `vlanQoS 3: needs a vlan between 1 and 4094`,
		with(`"vlan":5,"vlanQoS":8`):                                        `vlanQoS 8: want a number between 0 and 7`,
		with(`"vlanProto":"802.1q"`):                                        `vlanProto 802.1q: needs a vlan; add "vlan": 0 for none`,
		with(`"vlan":0,"vlanProto":"802.1ad"`):                              `vlanProto 802.1ad: needs a vlan between 1 and 4094`,
		with(`"vlan":5,"vlanProto":"qinq"`):                                 `vlanProto: "qinq": want 802.1q or 802.1ad`,
		with(`"mac":"01:00:5e:00:00:01"`):                                   `mac: MAC address "01:00:5e:00:00:01": want a unicast address: not zero, and the first byte even`,
		with(`"mac":"nonsense"`):                                            `mac: MAC address "nonsense": want six bytes in hexadecimal, e.g. 02:00:5e:10:00:01`,
		with(`"spoofchk":true`):                                             `spoofchk true: want "on" or "off"`,
		with(`"link_state":"up"`):                                           `link_state: "up": want auto, enable or disable`,
		with(`"min_tx_rate":200,"max_tx_rate":100`):                         `min_tx_rate 200: want at most the maximum, 100 Mb/s`,
		with(`"strict":true,"mtu":10`):                                      `mtu 10: want a number between 68 and 65535`,
		with(`"pool":"/x"`):                                                 `pool /x: want name or prefix/name, e.g. intel.com/intel_sriov_netdevice`,
		with(`"deviceID":"eth0"`):                                           `deviceID: PCI address "eth0": want domain:bus:device.function in hexadecimal, e.g. 0000:3b:00.1`,
		with(`"deviceID":"3b:01.2","runtimeConfig":{"deviceID":"3b:01.3"}`): `runtimeConfig.deviceID "3b:01.3": another device than deviceID 0000:3b:01.2; want one`,
		strict(`"runtimeConfig":{"bandwidth":{"ingressRate":1}}`):           `runtimeConfig.bandwidth {"ingressRate":1}: not served; max_tx_rate limits what a VF sends`,
		strict(`"runtimeConfig":{"Mac":"02:00:00:00:00:01"}`):               `runtimeConfig.Mac: did you mean mac? (unknown key, value "02:00:00:00:00:01")`,
		strict(`"ipam":{"type":"host-local","subnet":"10.0.0.0/24","rangestart":"10.0.0.5"},"vlan":-1`): `vlan -1: want a number between 0 and 4094; ipam.rangestart: did you mean rangeStart? (unknown key, value 10.0.0.5)`,
		with(`"prevResult":{"cniVersion":"1.1.0","interfaces":[null]}`):                                 `prevResult.interfaces [null]: element 0: want an object`,
		with(`"prevResult":{"cniVersion":"1.1.0","ips":[{"address":"x"}]}`):                             `prevResult {"cniVersion":"1.1.0","ips":[{"address":"x"}]}: not a result of version 1.1.0: invalid CIDR address: x`,
		with(`"prevResult":{"routes":[{"gw":"10.0.0.1"}]}`):                                             `prevResult {"routes":[{"gw":"10.0.0.1"}]}: routes[0] has no dst`,
		with(`"cni.dev/valid-attachments":[{"ifname":"net1"}]`):                                         `cni.dev/valid-attachments[0].containerID: want containerID and ifname of an attachment`,
	} {
		_, err := Parse([]byte(raw))
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%s\n got %s\nwant %s", raw, got, want)
		}
		if !errors.Is(err, vf.ErrInvalid) && !errors.Is(err, ErrVersion) {
			t.Errorf("%s: the error is neither a vf.ErrInvalid nor ErrVersion", raw)
		}
	}
}
