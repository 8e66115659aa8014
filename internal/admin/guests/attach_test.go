package guests

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// one returns the request for a VF as device net2.
func one() []api.GuestXMLRequest {
	return []api.GuestXMLRequest{{Device: "net2", Pool: "x/a", Way: "interface"}}
}

func attached(t *testing.T, f *fake, a Attachment) (api.GuestAttached, error) {
	t.Helper()
	a.Guest = "db1"
	if a.Devices == nil {
		a.Devices = one()
	}
	return Attach(t.Context(), f, a, func(string) {})
}

// Attach puts the device where the request wants it. A repeated call changes nothing.
func TestAttach(t *testing.T) {
	for name, tc := range map[string]struct {
		running, kept bool
		a             Attachment
		live, config  bool
	}{
		"off":                   {false, true, Attachment{}, false, true},
		"running":               {true, true, Attachment{}, true, true},
		"running, --live":       {true, true, Attachment{Live: true}, true, false},
		"running, --config":     {true, true, Attachment{Config: true}, false, true},
		"running, not kept":     {true, false, Attachment{}, true, false},
		"off, --config":         {false, true, Attachment{Config: true}, false, true},
		"running, both by name": {true, true, Attachment{Live: true, Config: true}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := hosts(t, &world{}, nil)
			if tc.running {
				a.Live = a.Defined
			}
			if !tc.kept {
				a.Defined = ""
			}
			for range 2 {
				got, err := attached(t, a, tc.a)
				if err != nil {
					t.Fatal(err)
				}
				want := api.GuestAttached{Guest: "db1", Devices: []api.GuestDevice{{Device: "net2", VF: a.leased["net2"].PCI, Live: tc.live, Config: tc.config}}}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				for where, text := range map[string]string{"live": a.Live, "config": a.Defined} {
					n := strings.Count(text, "ua-culvert-net2")
					if in := map[string]bool{"live": tc.live, "config": tc.config}[where]; in != (n == 1) || n > 1 {
						t.Errorf("%s: it is there %d times", where, n)
					}
				}
				if tc.config != strings.Contains(a.Defined, `<culvert:vf device="net2" pool="x/a"`) || !a.Autostart {
					t.Errorf("its settings in the definition, autostart %v:\n%s", a.Autostart, a.Defined)
				}
			}
		})
	}
}

// Whichever call fails, the guest has no more devices and VFs than before, and keeps those that it
// had.
func TestAttachIsUndone(t *testing.T) {
	pair := append(one(), api.GuestXMLRequest{Device: "net1", Pool: "x/a", Way: "interface"}, api.GuestXMLRequest{Device: "net3", Way: "hostdev", Apart: "net2"})
	for _, how := range []breakage{{name: "refused"}, {name: "answer lost", effect: true}} {
		t.Run(how.name, func(t *testing.T) {
			for at := 1; ; at++ {
				w := &world{at: at, how: how}
				a, _ := hosts(t, w, nil)
				a.pool = 5
				a.Live = a.Defined
				before := a.Seen
				_, err := attached(t, a, Attachment{Devices: pair})
				if at > w.calls {
					break
				}
				says := fmt.Sprintf("call %d (after %q), which ends with: %v", at, w.done, err)
				if !errors.Is(err, errBroken) {
					t.Errorf("no error: %s", says)
				}
				if len(a.leased) != 1 || a.pool != 5 {
					t.Errorf("%d VFs are leased: %s", len(a.leased), says)
				}
				if a.Defined != before.Defined || cmp.Diff(uses(t, before.Live), uses(t, a.Live)) != "" {
					t.Errorf("it has another definition: %s\n%s", says, cmp.Diff(before.Defined+before.Live, a.Defined+a.Live))
				}
			}
		})
	}
}

func TestAttachRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*fake)
		a      Attachment
		is     error
		says   string
	}{
		"no such guest":    {func(f *fake) { f.Defined = "" }, Attachment{}, vf.ErrNotFound, `guest "db1": not found: virsh list --all`},
		"live, and off":    {func(*fake) {}, Attachment{Live: true}, vf.ErrInvalid, "--live: invalid: guest db1 is off"},
		"config, and gone": {func(f *fake) { f.Live, f.Defined = f.Defined, "" }, Attachment{Config: true}, vf.ErrInvalid, "--config: invalid: guest db1 has no definition that is kept"},
		"used up":          {func(f *fake) { f.pool = 0 }, Attachment{}, vf.ErrNothingFree, "held (vm db2)"},
		"another VF runs": {func(f *fake) {
			f.Live = strings.NewReplacer("ua-culvert-net1", "ua-culvert-net2", `function="0x1"`, `function="0x7"`).Replace(f.Defined)
		}, Attachment{}, vf.ErrHeld, "culvert vm detach db1 net2 first"},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := hosts(t, &world{}, nil)
			tc.change(a)
			before := a.Seen
			_, err := attached(t, a, tc.a)
			if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got  %v\nwant %s", err, tc.says)
			}
			if cmp.Diff(before, a.Seen) != "" || len(a.leased) != 1 {
				t.Errorf("something changed:\n%s", cmp.Diff(before, a.Seen))
			}
		})
	}
}

// Detach takes an attached device out of both definitions. A repeated call changes nothing.
func TestDetach(t *testing.T) {
	for _, device := range []string{"net2", ""} {
		a, _ := hosts(t, &world{}, nil)
		a.Live = a.Defined
		if _, err := attached(t, a, Attachment{}); err != nil {
			t.Fatal(err)
		}
		given := a.leased["net2"].PCI
		a.VFs = []api.VF{{PCI: given, Phase: "quarantined", Reason: "vlan is 7"}}
		left := 1
		if device == "" {
			left = 0
		}
		for again := range 2 {
			got, err := Detach(t.Context(), a, "db1", device, func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(a.Live+a.Defined, "ua-culvert-net"); len(a.leased) != left || n != 2*left || strings.Contains(a.Defined, `"net2"`) {
				t.Errorf("%q: %d VFs leased, %d devices", device, len(a.leased), n)
			}
			if i := len(got.VFs) - 1; again == 0 && (i < 0 || got.VFs[i].VF != given || got.VFs[i].Phase != "quarantined" || got.VFs[i].Reason != "vlan is 7") {
				t.Errorf("%q: %+v", device, got)
			}
			if again == 1 && len(got.VFs) > 0 {
				t.Errorf("%q, again: %+v", device, got)
			}
		}
	}
}

// A guest that was stopped has given its VFs back. Detach takes the devices out of its definition
// and says so.
func TestDetachAfterDestroy(t *testing.T) {
	a, _ := hosts(t, &world{}, nil)
	a.leased = map[string]api.VF{}
	for _, want := range []api.GuestDetached{{VFs: []api.GuestVF{}, Devices: []string{"net1"}}, {VFs: []api.GuestVF{}}} {
		got, err := Detach(t.Context(), a, "db1", "", func(string) {})
		if diff := cmp.Diff(want, got); diff != "" || err != nil || uses(t, a.Defined) != nil {
			t.Errorf("%v; left are %v; -want +got:\n%s", err, uses(t, a.Defined), diff)
		}
	}
}

// A guest that does not release a device keeps everything, and the error says what to do.
func TestDetachRefused(t *testing.T) {
	w := &world{at: 3, how: breakage{name: "refused"}}
	a, _ := hosts(t, w, nil)
	a.Live = a.Defined
	before := a.Seen
	_, err := Detach(t.Context(), a, "db1", "net1", func(string) {})
	if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "shut guest db1 down") {
		t.Error(err)
	}
	if cmp.Diff(before, a.Seen) != "" || len(a.leased) != 1 {
		t.Errorf("something changed:\n%s", cmp.Diff(before, a.Seen))
	}
	a.Defined, a.Live, a.leased = "", "", nil
	if _, err := Detach(t.Context(), a, "db1", "", func(string) {}); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("no such guest: %v", err)
	}
}
