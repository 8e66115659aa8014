package vf

import (
	"encoding"
	"strings"
	"testing"
)

// value has the methods of all types of the domain that have a text form.
type value interface {
	encoding.TextMarshaler
	encoding.TextUnmarshaler
}

// A value that is parsed, written and parsed again has the same text. The text of an address has no
// character that would break a path or a message. A text that cannot be parsed is refused with an
// error that contains the text.
func FuzzText(f *testing.F) {
	for _, s := range []string{
		"0000:3b:00.1", "3b:00.1", "10000:00:1f.7", "90:e2:ba:00:00:01", "90:e2:ba:00:00:01/p1#3", "90:e2:ba:00:00:01#0",
		"000000000000#0", "#3", "/p1", "90:e2:ba:00:00:01/a#b#4",
		"802.1q", "802.1AD", "auto", "disable", "yes", "unknown", "", "../../etc", "0000:3b:00.1\n", "-1:00.0", "+0x:0:0.0",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, v := range map[string]struct{ read, again value }{
			"PCIAddr": {new(PCIAddr), new(PCIAddr)}, "MAC": {new(MAC), new(MAC)}, "PFID": {new(PFID), new(PFID)}, "ID": {new(ID), new(ID)},
			"VLANProto": {new(VLANProto), new(VLANProto)}, "LinkState": {new(LinkState), new(LinkState)}, "Tri": {new(Tri), new(Tri)},
		} {
			if v.read.UnmarshalText([]byte(s)) != nil {
				continue
			}
			text, err := v.read.MarshalText()
			if err != nil {
				t.Fatalf("%s %q: %v", name, s, err)
			}
			if len(text) == 0 {
				continue // unset
			}
			if err := v.again.UnmarshalText(text); err != nil {
				t.Fatalf("%s %q is written %q, which does not read: %v", name, s, text, err)
			}
			if twice, err := v.again.MarshalText(); err != nil || string(twice) != string(text) {
				t.Fatalf("%s %q is written %q and then %q, %v", name, s, text, twice, err)
			}
			if (name == "PCIAddr" || name == "MAC") && strings.Trim(string(text), "0123456789abcdef:.") != "" {
				t.Fatalf("%s %q is written %q", name, s, text)
			}
		}
	})
}
