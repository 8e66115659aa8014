package node

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample is the output of linksScript on a node with two VFs, of which the second one is in a
// container. It is shortened to the attributes that parseLinks reads.
const sample = `enp1s0 0 0000:01:10.0
enp1s0 1 0000:01:10.2

[{"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP","LOWER_UP"],"mtu":65536},
{"ifindex":3,"ifname":"enp1s0","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":1500,"address":"52:54:00:c1:01:01","parentdev":"0000:01:00.0",
 "vfinfo_list":[
  {"vf":0,"address":"86:d7:17:3d:9e:00","vlan_list":[{}],"rate":{"max_tx":0,"min_tx":0},"spoofchk":true,"trust":false},
  {"vf":1,"address":"86:d7:17:3d:9e:01","vlan_list":[{"vlan":100}],"rate":{"max_tx":0,"min_tx":0},"spoofchk":true,"trust":false,"stats":{"rx":7}}]},
{"ifindex":5,"ifname":"enp1s0v0","flags":["BROADCAST","MULTICAST"],"mtu":1500,"promiscuity":0,"address":"86:d7:17:3d:9e:00","parentdev":"0000:01:10.0"}]`

func TestParseLinks(t *testing.T) {
	got, err := parseLinks([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	want := VFs{
		"enp1s0#0": "0000:01:10.0 ifname enp1s0v0 address 86:d7:17:3d:9e:00 mtu 1500 promiscuity 0 parentdev 0000:01:10.0; " +
			"the PF holds address 86:d7:17:3d:9e:00 rate map[max_tx:0 min_tx:0] spoofchk true trust false vlan_list [map[]]",
		"enp1s0#1": "0000:01:10.2 no netdevice on the host; " +
			"the PF holds address 86:d7:17:3d:9e:01 rate map[max_tx:0 min_tx:0] spoofchk true trust false vlan_list [map[vlan:100]]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, text := range []string{"", "enp1s0 0 0000:01:10.0\n", "\n{}", "enp1s0 x 0000:01:10.0\n\n[]"} {
		if got, err := parseLinks([]byte(text)); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	if got, err := parseLinks([]byte("\n[]")); err != nil || len(got) != 0 {
		t.Errorf("a node without VFs: %v, %v", got, err)
	}
}

// TestChanges: a difference in any attribute that a program could leave behind is a change. A
// difference in one that changes by itself is none.
func TestChanges(t *testing.T) {
	before, err := parseLinks([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to string
		vf       string
	}{
		{`"ifname":"enp1s0v0"`, `"ifname":"net1"`, "enp1s0#0"},
		{`"flags":["BROADCAST","MULTICAST"],"mtu":1500`, `"flags":["BROADCAST","MULTICAST","UP"],"mtu":1500`, "enp1s0#0"},
		{`"mtu":1500,"promiscuity":0`, `"mtu":1400,"promiscuity":0`, "enp1s0#0"},
		{`"promiscuity":0`, `"promiscuity":1`, "enp1s0#0"},
		{`"vlan_list":[{}]`, `"vlan_list":[{"vlan":5}]`, "enp1s0#0"},
		{`"vlan":100`, `"vlan":101`, "enp1s0#1"},
		{`enp1s0 1 0000:01:10.2` + "\n", ``, "enp1s0#1"},
		{`"rx":7`, `"rx":8`, ""},
		{`"flags":["BROADCAST","MULTICAST"],"mtu":1500`, `"flags":["NO-CARRIER","BROADCAST","MULTICAST"],"mtu":1500`, ""},
		{`"ifindex":5`, `"ifindex":50`, ""},
	} {
		if !strings.Contains(sample, c.from) {
			t.Fatalf("%s is not in the sample", c.from)
		}
		after, err := parseLinks([]byte(strings.Replace(sample, c.from, c.to, 1)))
		if err != nil {
			t.Fatal(err)
		}
		changes := before.Changes(after)
		if c.vf == "" && len(changes) > 0 || c.vf != "" && (len(changes) != 1 || changes[c.vf] == "") {
			t.Errorf("%s to %s: want a change of %q, got %v", c.from, c.to, c.vf, changes)
		}
	}
}

func FuzzParseLinks(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("enp1s0 0 0000:01:10.0\n\n[{\"ifname\":1,\"flags\":{},\"vfinfo_list\":[1,{\"vf\":\"0\"}]}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		seen, err := parseLinks(text)
		if err == nil && len(seen.Changes(seen)) > 0 {
			t.Errorf("%q differs from itself", text)
		}
	})
}
