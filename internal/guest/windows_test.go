package guest

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

const (
	osinfo   = "<metadata><libosinfo:libosinfo xmlns:libosinfo='http://libosinfo.org/xmlns/libvirt/domain/1.0'><libosinfo:os id='http://microsoft.com/win/2k22'/></libosinfo:libosinfo></metadata>"
	enlight  = "<features><hyperv mode='custom'><relaxed state='on'/><vapic state='on'/><spinlocks state='on' retries='8191'/></hyperv></features>"
	winClock = "<clock offset='localtime'><timer name='hypervclock' present='yes'/></clock>"
)

// A definition shows that its guest is Windows, and what it lacks for that.
func TestWindows(t *testing.T) {
	for name, c := range map[string]struct {
		elements string
		is       bool
		lacks    []string
	}{
		"complete":        {osinfo + enlight + winClock, true, nil},
		"by its features": {enlight + winClock, true, nil},
		"bare":            {osinfo, true, []string{"relaxed, vapic, spinlocks", "its clock"}},
		"one is off":      {osinfo + strings.Replace(enlight, "<vapic state='on'/>", "<vapic state='off'/>", 1) + winClock, true, []string{"enlightenments: vapic"}},
		"passthrough":     {osinfo + "<features><hyperv mode='passthrough'/></features>" + winClock, true, nil},
		"UTC":             {osinfo + enlight + strings.Replace(winClock, "localtime", "utc", 1), true, []string{"its clock"}},
		"no timer":        {osinfo + enlight + strings.Replace(winClock, "'yes'", "'no'", 1), true, []string{"its clock"}},
		"Linux":           {strings.Replace(osinfo, "microsoft.com/win/2k22", "debian.org/debian/13", 1), false, []string{"relaxed", "its clock"}},
		"nothing":         {"", false, []string{"relaxed", "its clock"}},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := ParseTuning(domain(c.elements))
			if err != nil {
				t.Fatal(err)
			}
			if g.Windows.Is != c.is {
				t.Errorf("is Windows: %v", g.Windows.Is)
			}
			advice := g.Windows.Advise()
			if len(advice) != len(c.lacks) {
				t.Fatalf("%+v, want %q", advice, c.lacks)
			}
			for i, a := range advice {
				if !strings.Contains(a.What, c.lacks[i]) || a.Why == "" || len(a.Mend) == 0 {
					t.Errorf("%+v, want %q", a, c.lacks[i])
				}
			}
		})
	}
}

// The advice about a VF names the driver in Windows, and how Windows pairs the VF with virtio.
func TestWindowsVF(t *testing.T) {
	for name, c := range map[string]struct {
		driver, device string
		failover       bool
		says, not      []string
	}{
		"X520":             {"ixgbe", "10ed", false, []string{"PCI ID 8086:10ed", "Intel 82599"}, []string{"VIOPROT"}},
		"a pair of X520":   {"ixgbe", "10ed", true, []string{"Intel 82599", "netcfg -v -l vioprot.inf"}, []string{"reg add"}},
		"a pair of X550":   {"ixgbe", "1565", true, []string{"netcfg", `/d "ven_8086&dev_1565"`}, nil},
		"an unknown model": {"cxgb4", "5807", false, []string{"Culvert knows no Windows driver for VFs of cxgb4"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			said := ""
			for _, a := range (Windows{}).AdviseVF(c.driver, vf.State{Vendor: "8086", Device: c.device}, c.failover) {
				said += a.What + a.Why + strings.Join(a.Mend, "\n")
			}
			for _, w := range c.says {
				if !strings.Contains(said, w) {
					t.Errorf("%q is not in %s", w, said)
				}
			}
			for _, w := range c.not {
				if strings.Contains(said, w) {
					t.Errorf("%q is in %s", w, said)
				}
			}
		})
	}
}
