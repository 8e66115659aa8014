package demo

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/lab"
)

// demo-vm.json has the fields that issue 6 asks for, and more.
func TestGuestResult(t *testing.T) {
	r := GuestResult{
		Guests: 2, Ping: true, LedgerMatchesLibvirt: true, VFsCreated: 14, Accel: "tcg", WhyNotKVM: strings.Repeat("why ", 60),
		Refused: "pool culvert.dev/guests: 2 of 2 VFs on enp1s0 are held (vm guest1; vm second): nothing free for vm third",
		Pings:   []Reach{{"guest1", "pod2", 3, 123.4}}, BootSeconds: []float64{210, 215},
	}
	fits(t, r)
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"guests": 2.0, "ping": true, "refused": r.Refused, "leaked": 0.0, "ledger_matches_libvirt": true} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	r.LedgerMatchesLibvirt = false
	if text := r.formatText(screen.Look{}); !strings.Contains(text, "NOT the same") {
		t.Errorf("nothing says that the ledger is wrong:\n%s", text)
	}
}

// TestPassedVFs: parsePassed finds the functions that libvirt passes to guests, in each form of its
// XML.
func TestPassedVFs(t *testing.T) {
	got, err := parsePassed([]byte(`<domain id='1'><name>b</name><devices>
  <interface type='hostdev' managed='no'><source><address type='pci' domain='0x0000' bus='0x01' slot='0x10' function='0x2'/></source></interface>
  <interface type='hostdev'><source network='culvert-0000-01-10-4'><address type='pci' domain='0x0000' bus='0x01' slot='0x10' function='0x4'/></source></interface>
</devices></domain>

<domain><name>a</name><devices>
  <hostdev mode='subsystem' type='pci'><source><address domain='0x0000' bus='0x01' slot='0x10' function='0x0'/></source></hostdev>
</devices></domain>
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a 0000:01:10.0", "b 0000:01:10.2", "b 0000:01:10.4"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, text := range []string{"<domain>", "<domain><name>a</name><devices><hostdev><source><address bus='x'/></source></hostdev></devices></domain>"} {
		if got, err := parsePassed([]byte(text)); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// With Options.Up a demo does not boot a lab that is not up, and RunGuests refuses more guests than
// nodes.
func TestRefusedBeforeALabIsUp(t *testing.T) {
	ctx, o := t.Context(), Options{Name: "t-demo-none", Out: t.TempDir(), Log: io.Discard, Up: true}
	d, err := beginDemo(o, vmFiles)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Steps.Close()
	up := func(context.Context, lab.Options) (*lab.Lab, error) {
		t.Error("a lab is brought up")
		return nil, nil
	}
	if _, err := d.bringUp(ctx, up); err == nil || !strings.Contains(err.Error(), o.Name) {
		t.Errorf("bringUp: %v", err)
	}
	if _, err := d.bringClusterUp(ctx); err == nil || !strings.Contains(err.Error(), o.Name) {
		t.Errorf("bringClusterUp: %v", err)
	}
	o.Guests = 3
	if err := RunGuests(ctx, o); err == nil || !strings.Contains(err.Error(), "use 1 to 2") {
		t.Errorf("RunGuests with 3 guests: %v", err)
	}
}
