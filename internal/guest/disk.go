package guest

import (
	"encoding/xml"
	"errors"
	"fmt"
)

// readDisk reads a <disk>, which begins at that line, after its start. A disk of type nvme is a PCI
// function of the host, and so may be the files below a disk (<backingStore>, <mirror>). libvirt
// takes such a function from its driver, whatever device it is. A VF is no disk, so Err is set.
func readDisk(dec *xml.Decoder, line int) (out []Use, err error) {
	var path []xml.StartElement
	for {
		token, err := dec.Token()
		if err != nil {
			return out, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			path = append(path, t.Copy())
			if n := len(path); n > 1 && t.Name.Local == "address" && path[n-2].Name.Local == "source" && attribute(path[n-2], "type") == "pci" {
				out = append(out, diskUse(t, line))
			}
		case xml.EndElement:
			if len(path) == 0 {
				return out, nil
			}
			path = path[:len(path)-1]
		}
	}
}

// diskUse returns the use of the PCI function at an <address>.
func diskUse(address xml.StartElement, line int) Use {
	a := addressElement{
		Domain: attribute(address, "domain"), Bus: attribute(address, "bus"),
		Slot: attribute(address, "slot"), Function: attribute(address, "function"),
	}
	u := Use{Way: Hostdev}
	err := errors.New("it is a PCI function of the host (type nvme), and a VF is no disk")
	if pci, addressErr := a.parseAddress("<source>"); addressErr != nil {
		err = addressErr
	} else {
		u.PCI = pci
	}
	u.Err = fmt.Errorf("<disk> at line %d: %w", line, err)
	return u
}

// attribute returns the value of an attribute, "" if it is not there.
func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}
