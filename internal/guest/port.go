package guest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"libvirt.org/go/libvirtxml"

	"github.com/culvert-net/culvert/internal/vf"
)

// Port is a device that libvirt took for a guest from a network, as the hook
// network.d gets it.
type Port struct {
	Name, UUID string // the guest's
	// Want is zero for a port that is no PCI function.
	Want Want
}

// hookData is the hook's standard input: the network, which is not read, and the
// port (https://libvirt.org/formatnetworkport.html).
type hookData struct {
	XMLName xml.Name `xml:"hookData"`
	Port    struct {
		Owner struct {
			Name string `xml:"name"`
			UUID string `xml:"uuid"`
		} `xml:"owner"`
		MAC  *libvirtxml.DomainInterfaceMAC  `xml:"mac"`
		VLAN *libvirtxml.DomainInterfaceVLan `xml:"vlan"`
		Plug struct {
			Type    string                       `xml:"type,attr"`
			Address *libvirtxml.DomainAddressPCI `xml:"address"`
		} `xml:"plug"`
	} `xml:"networkport"`
}

// ParsePort reads the hook's standard input. The error wraps vf.ErrInvalid.
func ParsePort(text []byte) (Port, error) {
	p, err := parsePort(text)
	if err != nil {
		return Port{}, fmt.Errorf("the port of a network: %w: %w", vf.ErrInvalid, err)
	}
	return p, nil
}

func parsePort(text []byte) (p Port, err error) {
	if len(text) > longest {
		return p, fmt.Errorf("it has %d bytes; want at most %d", len(text), longest)
	}
	var doc hookData
	if err := xml.NewDecoder(bytes.NewReader(text)).Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return p, err
	}
	port := doc.Port
	if port.Plug.Type != "hostdev-pci" {
		return p, nil
	}
	p.Name, p.UUID = strings.TrimSpace(port.Owner.Name), strings.ToLower(strings.TrimSpace(port.Owner.UUID))
	if !isName(p.Name) || !uuidForm.MatchString(p.UUID) {
		return p, fmt.Errorf("<owner> %q with UUID %q: want a guest's", p.Name, p.UUID)
	}
	u := Use{Way: Network}
	if u.PCI, err = addressOf(port.Plug.Address); err != nil {
		return p, fmt.Errorf("<plug>: %w", err)
	}
	if port.MAC != nil {
		mac, err := vf.ParseMAC(port.MAC.Address)
		if err != nil {
			return p, fmt.Errorf("<mac>: %w", err)
		}
		u.MAC = &mac
	}
	if u.VLAN, err = vlanOf(port.VLAN); err != nil {
		return p, err
	}
	p.Want = Want{Device: u.Name(), VF: u.PCI, Spec: u.elementSpec()}
	return p, nil
}
