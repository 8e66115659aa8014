package vf

import (
	"fmt"
	"regexp"
)

// Segment is the name of an L2 segment: the switches and cables on which PFs reach each other
// without a router. Persons name the segment of a PF in host.yaml or a NodePolicy. The empty
// Segment is that of a PF without a named segment: it is unknown, and may be any.
type Segment string

// segmentName is a DNS label (RFC 1123), so that a name can stand in a label of Kubernetes too.
var segmentName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// WantSegment describes the form of a segment's name, for errors.
const WantSegment = "a name such as storage: lower-case letters, digits and '-', a letter or digit at both ends, at most 63"

// ParseSegment reads the name of a segment.
func ParseSegment(s string) (Segment, error) {
	if !segmentName.MatchString(s) {
		return "", fmt.Errorf("%q: want %s", s, WantSegment)
	}
	return Segment(s), nil
}

// Conflicts reports whether a and b are known to be two segments: both have names, which differ.
func (a Segment) Conflicts(b Segment) bool { return a != "" && b != "" && a != b }
