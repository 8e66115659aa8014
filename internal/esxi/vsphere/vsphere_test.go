package vsphere

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/plan"
	"github.com/culvert-net/culvert/internal/esxi/state"
	"github.com/culvert-net/culvert/test/vcsim"
)

func dial(t *testing.T, m *vcsim.Model, change func(*file.Spec, *Login)) (*Conn, error) {
	t.Helper()
	spec, login := file.Spec{Server: m.Server, Thumbprint: m.Thumbprint}, Login{User: vcsim.User, Password: vcsim.Password}
	if change != nil {
		change(&spec, &login)
	}
	c, err := Dial(t.Context(), spec, login)
	if err == nil {
		t.Cleanup(func() { c.Close(t.Context()) })
	}
	return c, err
}

// TestObserve: a host is seen the same itself and in a vCenter.
func TestObserve(t *testing.T) {
	for name, vcenter := range map[string]bool{"ESXi": false, "vCenter": true} {
		t.Run(name, func(t *testing.T) {
			m := vcsim.New(t, vcsim.Options{VCenter: vcenter})
			c, err := dial(t, m, func(s *file.Spec, _ *Login) {
				if vcenter {
					s.Host = m.HostName
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			h, err := c.Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var nics, vms []string
			for _, p := range h.Ports {
				nics = append(nics, p.NIC)
			}
			for _, vm := range h.VMs {
				vms = append(vms, vm.Name)
			}
			if diff := cmp.Diff([]string{"vmnic2", "vmnic3", "vmnic0", "vmnic1"}, nics); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"vm1", "vm2", "vm3"}, vms); diff != "" {
				t.Error(diff)
			}
			want := state.Port{
				NIC: "vmnic2", PCI: "0000:03:00.0", Driver: "i40en", Model: "Ethernet Controller X710 for 10GbE SFP+", MAC: "3c:fd:fe:00:00:02",
				Mbps: 10000, Capable: true, Max: 8, VFs: []state.VF{}, SystemID: "5f0a2d1e-host", DeviceID: 0x1572, VendorID: -32634,
			}
			if diff := cmp.Diff(want, h.Ports[0]); diff != "" {
				t.Error(diff)
			}
			if s := h.FindSwitch("vSwitch0"); s == nil || !cmp.Equal(s.Uplinks, []string{"vmnic0"}) || s.MTU != 1500 {
				t.Errorf("vSwitch0 is %+v", s)
			}
			if vm := h.VMs[0]; vm.On || vm.MemoryMB != 1024 || vm.Controller != 100 || vm.MaxCards != 10 || vm.MaxDevices != 16 || vm.ID == "" {
				t.Errorf("vm1 is %+v", vm)
			}
			if h.Boot.IsZero() || !strings.Contains(h.Product, "VMware") || !h.Connected {
				t.Errorf("the host is %+v", h)
			}
		})
	}
}

// TestTrust: a server is accepted by its thumbprint, or by a certificate that the system or the file
// verifies. An error names the thumbprint and the next step.
func TestTrust(t *testing.T) {
	m := vcsim.New(t, vcsim.Options{})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, m.CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*file.Spec, *Login)
		want   string // of the error; empty: none
	}{
		"pinned":            {nil, ""},
		"verified":          {func(s *file.Spec, _ *Login) { s.Thumbprint, s.CAFile = "", ca }, ""},
		"neither":           {func(s *file.Spec, _ *Login) { s.Thumbprint = "" }, "compare the thumbprint " + m.Thumbprint},
		"other thumbprint":  {func(s *file.Spec, _ *Login) { s.Thumbprint = strings.Repeat("AB", 32) }, "the server's certificate has the thumbprint " + m.Thumbprint + ", and the file has ABAB"},
		"no such CA":        {func(s *file.Spec, _ *Login) { s.Thumbprint, s.CAFile = "", "/none.pem" }, "/none.pem"},
		"pinned beside CA":  {func(s *file.Spec, _ *Login) { s.CAFile, s.Thumbprint = ca, strings.Repeat("AB", 32) }, "the server's certificate has the thumbprint"},
		"wrong password":    {func(_ *file.Spec, l *Login) { l.Password = "x" }, "as culvert: the server does not accept the login: check the user and the password"},
		"ended session":     {func(_ *file.Spec, l *Login) { *l = Login{Cookie: "x"} }, "run culvert esxi login again"},
		"other host":        {func(s *file.Spec, _ *Login) { s.Host = "esxi01.exmaple.com" }, `has no host "esxi01.exmaple.com": did you mean esxi01.example.com?`},
		"no server answers": {func(s *file.Spec, _ *Login) { s.Server = "127.0.0.1:1" }, "connect to 127.0.0.1:1: "},
	} {
		_, err := dial(t, m, c.change)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := dial(t, m, func(_ *file.Spec, l *Login) { l.Password = "x" }); !errors.Is(err, ErrLogin) {
		t.Errorf("a wrong password is %v", err)
	}
}

// TestSavedLogin: another process goes on with a session by its cookie, until logout.
func TestSavedLogin(t *testing.T) {
	m := vcsim.New(t, vcsim.Options{})
	first, err := dial(t, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	saved := func(_ *file.Spec, l *Login) { *l = Login{Cookie: first.SessionCookie()} }
	for range 2 { // Close does not end the session of a saved login
		second, err := dial(t, m, saved)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := second.Observe(t.Context()); err != nil {
			t.Error(err)
		}
		second.Close(t.Context())
	}
	if err := first.Logout(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t, m, saved); !errors.Is(err, ErrLogin) {
		t.Errorf("after logout: %v", err)
	}
}

// TestCookie: the saved cookie is the one of the session, with its quotes.
func TestCookie(t *testing.T) {
	u := &url.URL{Scheme: "https", Host: "esxi01", Path: "/sdk"}
	for _, text := range []string{"abc", `"abc"`} {
		client := &vim25.Client{Client: soap.NewClient(u, false)}
		client.Jar.SetCookies(u, []*http.Cookie{parseCookie(text)})
		if got := (&Conn{client: client}).SessionCookie(); got != text {
			t.Errorf("%s is %s", text, got)
		}
	}
}

// TestExplained: faults with a next step have it, in the answer to a call and in a task.
func TestExplained(t *testing.T) {
	c := &Conn{}
	for want, fault := range map[string]types.BaseMethodFault{
		"add: the user lacks the privilege Host.Config.Network: culvert esxi role lists all that are needed": &types.NoPermission{PrivilegeId: "Host.Config.Network"},
		"add: the host's licence lets programs read only":                                                    &types.RestrictedVersion{},
		"add: the task failed (ResourceInUse)":                                                               &types.ResourceInUse{},
	} {
		if err := c.explainFault("add", &taskError{fault, "the task failed"}); !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		body := &soap.Fault{}
		body.Detail.Fault = reflect.ValueOf(fault).Elem().Interface()
		if err := c.explainFault("add", soap.WrapSoapFault(body)); strings.HasPrefix(want, "add: the user") && err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if c.explainFault("add", nil) != nil {
		t.Error("no error is an error")
	}
}

// TestSwitchSpec: an update keeps the settings that the file does not have, and the order of uplinks
// has those of the file.
func TestSwitchSpec(t *testing.T) {
	yes, no := true, false
	s := file.Switch{Name: "a", Uplinks: []string{"vmnic3"}, MTU: 9000, Security: file.Security{Promiscuous: &no}}
	present := types.HostVirtualSwitchSpec{NumPorts: 64, Mtu: 1500, Policy: &types.HostNetworkPolicy{
		Security:   &types.HostNetworkSecurityPolicy{AllowPromiscuous: &yes, MacChanges: &yes},
		NicTeaming: &types.HostNicTeamingPolicy{Policy: "loadbalance_srcid", NicOrder: &types.HostNicOrderPolicy{ActiveNic: []string{"vmnic2"}}},
	}}
	want := types.HostVirtualSwitchSpec{
		NumPorts: 64, Mtu: 9000, Bridge: &types.HostVirtualSwitchBondBridge{NicDevice: []string{"vmnic3"}},
		Policy: &types.HostNetworkPolicy{
			Security:   &types.HostNetworkSecurityPolicy{AllowPromiscuous: &no, MacChanges: &yes},
			NicTeaming: &types.HostNicTeamingPolicy{Policy: "loadbalance_srcid", NicOrder: &types.HostNicOrderPolicy{ActiveNic: []string{"vmnic3"}}},
		},
	}
	if diff := cmp.Diff(want, makeSwitchSpec(s, present)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if present.Policy.NicTeaming.NicOrder.ActiveNic[0] != "vmnic2" || !*present.Policy.Security.AllowPromiscuous {
		t.Error("the present settings have changed")
	}
	want = types.HostVirtualSwitchSpec{NumPorts: 128, Mtu: 1500}
	if diff := cmp.Diff(want, makeSwitchSpec(file.Switch{MTU: 1500}, newSwitch)); diff != "" {
		t.Errorf("a new one: -want +got:\n%s", diff)
	}
}

// TestUpdate: what UpdateVirtualSwitch and UpdatePortGroup have done is seen, and ports know which VFs
// are theirs.
func TestUpdate(t *testing.T) {
	m := vcsim.New(t, vcsim.Options{AppliesLive: true})
	c, err := dial(t, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	no := false
	g := file.PortGroup{Name: "g", VLAN: 7}
	first := file.Switch{Name: "a", MTU: 1500, Uplinks: []string{"vmnic2"}, Security: file.Security{MACChanges: &no}}
	second := file.Switch{Name: "a", MTU: 9000, Uplinks: []string{"vmnic2", "vmnic3"}}
	var h state.Host
	for _, action := range []any{
		plan.AddSwitch{Switch: first}, plan.AddGroup{Switch: "a", Group: g}, plan.UpdateSwitch{Switch: second},
		plan.UpdateGroup{Switch: "a", Group: file.PortGroup{Name: "g", VLAN: 8, Security: file.Security{Promiscuous: &no}}},
		plan.SetPorts{Ports: []plan.PortSetting{{PCI: "0000:03:00.0", VFs: 1}, {PCI: "0000:03:00.1", VFs: 2}}},
	} {
		if err := c.Do(t.Context(), action); err != nil {
			t.Fatal(err)
		}
		if h, err = c.Observe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := state.Switch{Name: "a", MTU: 9000, Uplinks: []string{"vmnic2", "vmnic3"}, Security: state.Security{MACChanges: &no}, PortGroups: []string{"g"}}
	if diff := cmp.Diff(&want, h.FindSwitch("a")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&state.PortGroup{Name: "g", Switch: "a", VLAN: 8, Security: state.Security{Promiscuous: &no}}, h.FindGroup("g")); diff != "" {
		t.Error(diff)
	}
	if a, b := h.Ports[0].VFs, h.Ports[1].VFs; len(a) != 1 || len(b) != 2 || b[0].PCI != "0000:03:06.0" {
		t.Errorf("VFs %v and %v", a, b)
	}
	if err := c.Do(t.Context(), "dance"); err == nil {
		t.Error("an unknown action was done")
	}
}

// TestManyHosts: a file for a vCenter names the host.
func TestManyHosts(t *testing.T) {
	m := vcsim.New(t, vcsim.Options{VCenter: true})
	if _, err := dial(t, m, nil); err == nil || !strings.Contains(err.Error(), "has 2 hosts: write host in the file: there are DC0_H0, DC0_H1") {
		t.Error(err)
	}
}
