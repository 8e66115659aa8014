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

// TestManyHosts: a file for a vCenter names the host.
func TestManyHosts(t *testing.T) {
	m := vcsim.New(t, vcsim.Options{VCenter: true})
	if _, err := dial(t, m, nil); err == nil || !strings.Contains(err.Error(), "has 2 hosts: write host in the file: there are DC0_H0, DC0_H1") {
		t.Error(err)
	}
}
