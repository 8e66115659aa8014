package kernel

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

func TestFindMove(t *testing.T) {
	vfs := []vf.PCIAddr{{Bus: 1, Device: 16}, {Bus: 2, Device: 16}, {Bus: 3, Device: 16}}
	links := []rtnl.Link{
		{Index: 1, Name: "lo"},
		{Index: 5, Name: "net1", Bond: &rtnl.Bond{Active: 6}},
		{Index: 6, Name: "net1a", Parent: vfs[0].String(), Master: 5},
		{Index: 7, Name: "net1b", Parent: vfs[1].String(), Master: 5},
		{Index: 8, Name: "net2", Parent: vfs[2].String()},
	}
	for _, tt := range []struct {
		name string
		give step.SetBondActive
		want int // index of the member
		from map[int]bool
		err  error
	}{
		{"a member", step.SetBondActive{Bond: "net1", VF: vfs[1], From: vfs[:1]}, 7, map[int]bool{6: true, 7: false}, nil},
		{"from a VF that is no member", step.SetBondActive{Bond: "net1", VF: vfs[1], From: vfs[2:]}, 7, map[int]bool{6: false, 7: false}, nil},
		{"no member", step.SetBondActive{Bond: "net1", VF: vfs[2], From: vfs[:1]}, 0, nil, vf.ErrNotFound},
		{"a member of a bond with another name", step.SetBondActive{Bond: "net3", VF: vfs[1], From: vfs[:1]}, 7, map[int]bool{6: true, 7: false}, nil},
		{"no such VF", step.SetBondActive{Bond: "net1", VF: vf.PCIAddr{Bus: 4}, From: vfs[:1]}, 0, nil, vf.ErrNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := findMove(links, tt.give)
			if !errors.Is(err, tt.err) || m.member.Index != tt.want {
				t.Errorf("member %d, %v", m.member.Index, err)
			}
			if diff := cmp.Diff(tt.from, m.from); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A bond whose AddBond was cut short has no alias. Its group says which lease it was for.
func TestMarkOfBond(t *testing.T) {
	const mark = "c1/0200c0010101#0@1"
	bond, group := &rtnl.Bond{}, bondGroup(mark)
	for _, tt := range []struct {
		name         string
		give         rtnl.Link
		its, anyMark bool
	}{
		{"its alias", rtnl.Link{Bond: bond, Alias: "culvert " + mark}, true, true},
		{"no alias yet, its group", rtnl.Link{Bond: bond, Group: group}, true, true},
		{"no alias yet, the group of another lease", rtnl.Link{Bond: bond, Group: bondGroup("c1/0200c0010101#0@2")}, false, true},
		{"the alias of another lease", rtnl.Link{Bond: bond, Alias: "culvert c2/0200c0010101#0@1"}, false, true},
		{"an alias of the pod, and its group", rtnl.Link{Bond: bond, Group: group, Alias: "uplink"}, false, false},
		{"a bond of the pod", rtnl.Link{Bond: bond}, false, false},
		{"a bond of the pod in a group", rtnl.Link{Bond: bond, Group: 7}, false, false},
		{"no bond", rtnl.Link{Group: group}, false, false},
	} {
		if its, anyMark := hasMark(tt.give, mark), hasAnyMark(tt.give); its != tt.its || anyMark != tt.anyMark {
			t.Errorf("%s: its bond %t, a bond of Culvert %t", tt.name, its, anyMark)
		}
	}
}

// I7: a move of a bond that hangs in the kernel is not repeated, since each one would block a thread.
func TestI7HangingMoveIsNotRepeated(t *testing.T) {
	k := New(Options{})
	s := step.SetBondActive{VF: vf.PCIAddr{Bus: 1}, Netns: "/nonexistent/c1", Bond: "net1"}
	if err := k.Do(t.Context(), s); !errors.Is(err, vf.ErrNetnsGone) {
		t.Errorf("nothing hangs: %v", err)
	}
	k.hangs.of = map[string]int{hangOfBond(s): 1}
	if err := k.Do(t.Context(), s); !errors.Is(err, vf.ErrTimeout) {
		t.Errorf("an earlier move hangs: %v", err)
	}
}
