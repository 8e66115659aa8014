package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/node/attach"
)

// The result of a bond has one interface, the bond's, with its MAC address and the addresses; that
// of VFs for vfio has an entry for each.
func TestBondResult(t *testing.T) {
	for name, vfio := range map[string]bool{"netdevices": false, "vfio": true} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(2)
			m.vfio = vfio
			config := strict(`"bond":{},"ipam":{"type":"host-local","subnet":"10.1.0.0/24"}`)
			out, err := New(partsOf(m)).Run(t.Context(), callOf(invocation("ADD", config)), nil)
			if err != nil {
				t.Fatal(err)
			}
			var r struct {
				Interfaces []struct{ Name, Mac, PciID, Sandbox string }
				IPs        []struct {
					Address   string
					Interface int
				}
			}
			if err := json.Unmarshal(out, &r); err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%v", r)
			want := "{[{net1 02:00:00:00:00:00  /run/netns/x}] [{10.1.0.2/24 0}]}"
			if vfio {
				want = "{[{net1 02:00:00:00:00:00 0000:01:10.0 /run/netns/x} {net1b 02:00:00:00:00:00 0000:01:10.0 /run/netns/x}] [{10.1.0.2/24 0}]}"
			}
			if got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}

func TestBondNameHasRoomForItsMembers(t *testing.T) {
	r := invocation("ADD", strict(`"bond":{}`))
	r.IfName = "fifteen-letters"
	if _, err := New(partsOf(newMemory(2))).Run(t.Context(), callOf(r), nil); !errors.Is(err, errEnvironment) {
		t.Errorf("a bond of 15 letters: %v", err)
	}
}

// checkBondResult checks the result of a bond that FuzzResult found to be accepted.
func checkBondResult(t *testing.T, c config.Config) {
	var members attach.Bonded
	for range c.Bond.Links {
		rec, err := newMemory(1).Attach(t.Context(), requestFor(c))
		if err != nil {
			return
		}
		members.Members = append(members.Members, rec)
	}
	out, err := formatBond(c, members, "net1", "/run/netns/x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := create.Create(c.Version, out); err != nil {
		t.Fatalf("the result is none of version %s: %v: %s", c.Version, err, out)
	}
}
