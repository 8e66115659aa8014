package guest

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// Windows has the parts of a definition that matter to a guest with Windows. None of this was run by
// Culvert's tests: they have no Windows.
type Windows struct {
	// Is says that the definition is of a Windows guest: libosinfo's mark says so, or it has Hyper-V
	// enlightenments.
	Is bool
	// Localtime says that the guest's hardware clock is in local time, as Windows expects it.
	Localtime bool
	// HyperV are the enlightenments that are on.
	HyperV []string
	// Clock says that the guest has Hyper-V's clock.
	Clock bool
}

// windowsParts has the parts of a domain that Windows depends on.
type windowsParts struct {
	XMLName  xml.Name `xml:"domain"`
	Metadata struct {
		Text string `xml:",innerxml"`
	} `xml:"metadata"`
	HyperV struct {
		All []struct {
			XMLName xml.Name
			State   string `xml:"state,attr"`
		} `xml:",any"`
		Mode string `xml:"mode,attr"`
	} `xml:"features>hyperv"`
	Clock struct {
		Offset string `xml:"offset,attr"`
		Timers []struct {
			Name    string `xml:"name,attr"`
			Present string `xml:"present,attr"`
		} `xml:"timer"`
	} `xml:"clock"`
}

// windowsMark begins the names that libosinfo has for versions of Windows.
const windowsMark = "http://microsoft.com/win/"

func readWindows(text []byte) (Windows, error) {
	var d windowsParts
	if err := xml.NewDecoder(bytes.NewReader(text)).Decode(&d); err != nil {
		return Windows{}, err
	}
	w := Windows{Localtime: d.Clock.Offset == "localtime"}
	for _, e := range d.HyperV.All {
		if e.State == "on" {
			w.HyperV = append(w.HyperV, e.XMLName.Local)
		}
	}
	if d.HyperV.Mode == "passthrough" {
		w.HyperV = usualHyperV()
	}
	w.Is = strings.Contains(d.Metadata.Text, windowsMark) || len(w.HyperV) > 0
	for _, t := range d.Clock.Timers {
		w.Clock = w.Clock || t.Name == "hypervclock" && t.Present != "no"
	}
	return w, nil
}

// usualHyperV returns the enlightenments that libvirt's documentation of <hyperv> lists for each
// Windows guest.
func usualHyperV() []string { return []string{"relaxed", "vapic", "spinlocks"} }

// Advice is something that a Windows guest lacks or needs.
type Advice struct {
	What, Why string
	Mend      []string // XML, or what to do in the guest
}

// AdviseVF returns what a Windows guest needs for a VF. driver is that of the VF's PF, and failover says
// that the VF is the fast path of a virtio interface.
func (w Windows) AdviseVF(driver string, v vf.State, failover bool) []Advice {
	facts := vf.DriverOf(driver).Windows
	need := Advice{What: fmt.Sprintf("VF %s (PCI ID %s:%s) needs its vendor's driver in Windows: %s", v.PCI, v.Vendor, v.Device, facts.Driver),
		Why: "Windows has no driver of its own for most VFs; without one the guest has a device and no interface"}
	if facts.Driver == "" {
		need.What = fmt.Sprintf("VF %s: Culvert knows no Windows driver for VFs of %s", v.PCI, driver)
	}
	need.Mend = []string{"in the guest: install it, then Get-NetAdapter | Format-Table Name,InterfaceDescription,MacAddress,Status"}
	out := []Advice{need}
	if failover {
		pair := Advice{What: fmt.Sprintf("VF %s is a fast path: Windows pairs it by VIOPROT, and NetKVM shows no link before that is installed", v.PCI),
			Why: "VIOPROT gives NetKVM the VF of the same MAC address and of the same MTU", Mend: []string{"in the guest, in virtio-win's NetKVM folder: netcfg -v -l vioprot.inf -c p -i VIOPROT"}}
		if !facts.PairsWith(v.Device) {
			pair.Mend = append(pair.Mend, fmt.Sprintf(`in the guest: reg add HKLM\SYSTEM\CurrentControlSet\Control\VioProt /v Supported /t REG_MULTI_SZ /d "ven_%s&dev_%s"    # its own list lacks this VF`, v.Vendor, v.Device))
		}
		out = append(out, pair)
	}
	return out
}

// Advise returns what the definition lacks for Windows.
func (w Windows) Advise() (out []Advice) {
	var missing []string
	for _, e := range usualHyperV() {
		if !slices.Contains(w.HyperV, e) {
			missing = append(missing, e)
		}
	}
	if len(missing) > 0 {
		out = append(out, Advice{
			What: "it has no Hyper-V enlightenments: " + strings.Join(missing, ", "), Why: "Windows then polls timers and locks as on hardware, which costs each interrupt of the VF",
			Mend: []string{"<features><hyperv mode='custom'><relaxed state='on'/><vapic state='on'/><spinlocks state='on' retries='8191'/></hyperv></features>"},
		})
	}
	if !w.Clock || !w.Localtime {
		out = append(out, Advice{
			What: "its clock is not the one that Windows expects", Why: "Windows takes the hardware clock for local time, and reads a slow timer without Hyper-V's clock",
			Mend: []string{"<clock offset='localtime'><timer name='hypervclock' present='yes'/></clock>"},
		})
	}
	return out
}
