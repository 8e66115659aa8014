package guest

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/vf"
)

// Port is a device that libvirt took for a guest from a network, as the hook
// network.d gets it.
type Port struct {
	Name, UUID string // the guest's; both are empty if one of them cannot be read
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
		MAC  *macElement  `xml:"mac"`
		VLAN *vlanElement `xml:"vlan"`
		Plug struct {
			Type    string          `xml:"type,attr"`
			Address *addressElement `xml:"address"`
		} `xml:"plug"`
	} `xml:"networkport"`
}

// ParsePort reads the hook's standard input. The error wraps vf.ErrInvalid. With an error, the Port
// has what could be read: Want.VF is zero if the address is not known.
func ParsePort(text []byte) (Port, error) {
	p, err := parsePort(text)
	if err != nil {
		err = fmt.Errorf("the port of a network: %w: %w", vf.ErrInvalid, err)
	}
	return p, err
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
	u := Use{Way: Network}
	var addressErr, ownerErr, macErr, vlanErr error
	u.PCI, addressErr = port.Plug.Address.parseAddress("<plug>")
	u.MAC, macErr = port.MAC.parseMAC()
	u.VLAN, vlanErr = port.VLAN.parseVLAN()
	p.Want = Want{Device: u.Name(), VF: u.PCI, Spec: u.elementSpec()}
	name, uuid := strings.TrimSpace(port.Owner.Name), strings.ToLower(strings.TrimSpace(port.Owner.UUID))
	if isName(name) && uuidForm.MatchString(uuid) {
		p.Name, p.UUID = name, uuid
	} else {
		ownerErr = fmt.Errorf("<owner> %s with UUID %s: want a guest's", excerpt.Quote(name), excerpt.Quote(uuid))
	}
	return p, cmp.Or(ownerErr, addressErr, macErr, vlanErr)
}
