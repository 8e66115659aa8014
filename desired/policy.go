package desired

import (
	"fmt"

	"github.com/culvert-net/culvert/vf"
)

// Policy is a NodePolicy that selects this node.
type Policy struct {
	Name     string
	Priority int32
	Spec     Spec
}

// ParsePolicy reads the part of a NodePolicy that has the keys of host.yaml, as
// JSON or YAML. What is wrong is told as for Parse, without lines, which an
// object has not: "NodePolicy a: pools[0].name ...".
func ParsePolicy(name string, content []byte) (Spec, error) {
	file := "NodePolicy " + name
	if len(content) > maxSize {
		return Spec{}, Error{File: file, Text: fmt.Sprintf("%d bytes are too many: at most %d are read", len(content), maxSize)}
	}
	root, err := document(file, content)
	if err != nil || root == nil {
		return Spec{}, err
	}
	return (&reader{file: file, object: true}).read(root)
}

// Contested is a PF of which policies want different things: it stays as it
// was wanted before, or is left alone.
type Contested struct {
	PCI vf.PCIAddr
	// Keep is what was wanted before; the zero value leaves the PF alone.
	Keep PFSpec
}
