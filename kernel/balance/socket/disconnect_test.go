package socket

import "testing"

// FuzzParseSocket: a socket has an address whatever the kernel's message has.
func FuzzParseSocket(f *testing.F) {
	f.Add(make([]byte, diagMessage))
	f.Add([]byte{2, 1, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, ok := parseSocket(raw); ok && (len(s.id) != socketIDSize || !s.peer.Addr().IsValid()) {
			t.Fatalf("%+v", s)
		}
	})
}
