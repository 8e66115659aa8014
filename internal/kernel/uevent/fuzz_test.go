package uevent

import (
	"bytes"
	"strings"
	"testing"
)

// All texts of an event are parts of the datagram, and a netdevice's name can be part of a path.
func FuzzParse(f *testing.F) {
	f.Add([]byte(kernelAdd))
	f.Add([]byte(kernelBind))
	f.Add(udevMessage("ACTION=add\x00IFINDEX=9\x00"))
	f.Add(udevMessage("ACTION=move\x00INTERFACE=../../etc\x00IFINDEX=-1\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Parse(b)
		if err != nil && e != (Event{}) {
			t.Errorf("an error and an event: %+v, %v", e, err)
		}
		for _, text := range []string{e.Action, e.Path, e.Subsystem, e.Interface} {
			if !bytes.Contains(b, []byte(text)) || strings.ContainsRune(text, 0) {
				t.Errorf("%q is not of the datagram", text)
			}
		}
		if n := e.Interface; strings.Contains(n, "/") || n == "." || n == ".." || len(n) > 15 || e.Index < 0 {
			t.Errorf("netdevice %d %q", e.Index, n)
		}
	})
}
