package made

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/state"
)

// TestSettle: an entry stays while the host has its part, and finds the key of a VF that the call made,
// but not that of one that was there before.
func TestSettle(t *testing.T) {
	nic := func(key int32, mac string) state.Use {
		return state.Use{As: file.NIC, Port: "vmnic2", PortGroup: "vf-a", MAC: mac, Key: key}
	}
	announced := func(mac string, others ...int32) Use { return Use{nic(0, mac), others} }
	for name, c := range map[string]struct {
		entries []Use
		has     []state.Use
		want    []int32 // the keys of the entries that stay
	}{
		"made":                 {[]Use{announced("", 1)}, []state.Use{nic(1, "a"), nic(2, "b")}, []int32{2}},
		"not made":             {[]Use{announced("", 1)}, []state.Use{nic(1, "a")}, nil},
		"two made":             {[]Use{announced(""), announced("")}, []state.Use{nic(1, "a"), nic(2, "b")}, []int32{1, 2}},
		"one of two":           {[]Use{announced(""), announced("")}, []state.Use{nic(1, "a")}, []int32{1}},
		"another MAC":          {[]Use{announced("b")}, []state.Use{nic(1, "a")}, nil},
		"its MAC":              {[]Use{announced("a")}, []state.Use{nic(1, "a")}, []int32{1}},
		"another port group":   {[]Use{announced("")}, []state.Use{{As: file.NIC, Port: "vmnic2", PortGroup: "x", Key: 1}}, nil},
		"known":                {[]Use{{nic(5, ""), nil}}, []state.Use{nic(5, "a"), nic(6, "a")}, []int32{5}},
		"its key, another MAC": {[]Use{{nic(5, "a"), nil}}, []state.Use{nic(5, "b")}, nil},
		"its key, another VF":  {[]Use{{Use: state.Use{As: file.Device, Port: "vmnic2", Address: "x", Key: 5}}}, []state.Use{{As: file.Device, Port: "vmnic2", Address: "y", Key: 5}}, nil},
		"gone":                 {[]Use{{nic(5, ""), nil}}, []state.Use{nic(6, "a")}, nil},
		"its key, another way": {[]Use{{nic(5, ""), nil}}, []state.Use{{As: file.Device, Port: "vmnic2", Key: 5}}, nil},
		"device":               {[]Use{{Use: state.Use{As: file.Device, Port: "vmnic2", Address: "x"}}}, []state.Use{{As: file.Device, Port: "vmnic2", Address: "y", Key: 1}, {As: file.Device, Port: "vmnic2", Address: "x", Key: 2}}, []int32{2}},
	} {
		m := Made{VMs: map[string]VM{"1": {Name: "vm1", Uses: c.entries}}}
		m.Settle(&state.Host{VMs: []state.VM{{ID: "1", VFs: c.has}}})
		var got []int32
		for _, u := range m.VMs["1"].Uses {
			got = append(got, u.Key)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// TestList: the list survives its file, and an empty list has none.
func TestList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made")
	m := Made{Server: "a", Maintenance: true, Switches: map[string]bool{"s": true}, Groups: map[string]string{"g": "s"}, Ports: map[string]Port{"vmnic2": {Before: Setting{2, true}}}}
	if err := m.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if diff := cmp.Diff(m, got); diff != "" || err != nil {
		t.Errorf("%v: %s", err, diff)
	}
	h := state.Host{Ports: []state.Port{{NIC: "vmnic2", Enabled: true, Requested: 2, Passthrough: true}}}
	if got.Settle(&h); len(got.Ports) != 1 || got.Maintenance || len(got.Switches)+len(got.Groups) != 0 {
		t.Errorf("a port that waits for a reboot: %+v", got)
	}
	h.Ports[0].Active, h.Ports[0].Present, h.Ports[0].PassActive = true, 2, true
	if got.Settle(&h); !got.IsEmpty() {
		t.Errorf("a port as before: %+v", got)
	}
	for range 2 {
		if err := got.Write(path); err != nil {
			t.Error(err)
		}
	}
	if got, err := Read(path); err != nil || !got.IsEmpty() {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestClone: further entries do not change a copy.
func TestClone(t *testing.T) {
	m := Made{Switches: map[string]bool{"a": true}, VMs: map[string]VM{"1": {Uses: []Use{{}}}}}
	before := m.Clone()
	m.Switches["b"], m.VMs["2"] = true, VM{}
	m.VMs["1"].Uses[0].Key = 7
	if diff := cmp.Diff(Made{Switches: map[string]bool{"a": true}, VMs: map[string]VM{"1": {Uses: []Use{{}}}}}, before); diff != "" {
		t.Error(diff)
	}
}

// TestAbsent: the entries of a virtual machine that is away or cannot be read stay, until they are forgotten.
func TestAbsent(t *testing.T) {
	m := Made{VMs: map[string]VM{"1": {Name: "vm1", Uses: []Use{{}}}, "2": {Name: "vm2", Uses: []Use{{}}}}}
	h := state.Host{VMs: []state.VM{{ID: "2", Unreadable: "inaccessible"}}}
	if m.Settle(&h); len(m.VMs) != 2 {
		t.Errorf("%+v", m.VMs)
	}
	if m.ForgetAbsent(&h); len(m.VMs) != 1 || m.VMs["2"].Name != "vm2" {
		t.Errorf("%+v", m.VMs)
	}
}
