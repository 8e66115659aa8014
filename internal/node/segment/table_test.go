package segment

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

var here, there = NewNodeID("here"), NewNodeID("there")

// ports are PFs a, b and c, managed and with carrier.
func ports() (out []vf.PF) {
	for i, name := range []string{"a", "b", "c"} {
		out = append(out, vf.PF{Name: name, ID: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, byte(i + 1)}}, PCI: vf.PCIAddr{Bus: uint8(i + 1)}, Up: true, Carrier: true, TotalVFs: 7})
	}
	return out
}

func station(node NodeID, i int) Station {
	return Station{node, vf.MAC{2, 0, 0, byte(i >> 16), byte(i >> 8), byte(i)}}
}

func pools(t *testing.T, text string) desired.Spec {
	t.Helper()
	spec, err := desired.Parse("host.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// feed adds rounds in which the PF with index i hears the stations heard[i]. A PF with nil has no
// carrier.
func feed(table *Table, rounds int, heard ...[]Station) {
	pfs := ports()[:len(heard)]
	for range rounds {
		var ears []Reception
		for i, stations := range heard {
			if stations != nil {
				ears = append(ears, Reception{PF: pfs[i], Heard: stations})
			}
		}
		table.Add(ears, pfs)
	}
}

var (
	silent   = []Station{}
	own      = func(i int) []Station { return []Station{station(here, i)} }
	foreign  = func(i int) []Station { return []Station{station(there, i)} }
	ofA, ofB = ports()[0].ID, ports()[1].ID
)

// The Table judges two PFs to be apart once both have listened long enough, and never before. A PF
// that hears no station must listen longer.
func TestPFsApart(t *testing.T) {
	for name, tc := range map[string]struct {
		heard  [][]Station
		rounds int // after which they are apart; 0: never
	}{
		"both hear no station":                      {[][]Station{silent, silent}, manyRounds + 1},
		"both hear others":                          {[][]Station{foreign(1), foreign(2)}, fewRounds + 1},
		"one hears others":                          {[][]Station{foreign(1), silent}, manyRounds + 1},
		"one hears the other":                       {[][]Station{own(2), silent}, 0},
		"both hear a third one":                     {[][]Station{foreign(1), foreign(1)}, 0},
		"both hear a third one of here":             {[][]Station{own(3), own(3), silent}, 0},
		"each hears one, these hear one":            {[][]Station{own(3), foreign(1), foreign(1)}, 0},
		"one has no carrier":                        {[][]Station{silent, nil}, 0},
		"each hears itself":                         {[][]Station{own(1), own(2)}, manyRounds + 1},
		"each hears a PF of here that is not there": {[][]Station{own(9), own(9)}, manyRounds + 1},
	} {
		table := NewTable(here)
		for round := 1; round <= 3*manyRounds; round++ {
			feed(table, 1, tc.heard...)
			if got, want := table.Apart(ofA, ofB), tc.rounds > 0 && round >= tc.rounds; got != want || table.Apart(ofB, ofA) != want {
				t.Errorf("%s: round %d: apart %t", name, round, got)
				break
			}
		}
	}
}

// A PF that was plugged in late, or whose frames were flooded, is not judged to be apart before it
// has listened long enough.
func TestLateAndFloodedPFs(t *testing.T) {
	table := NewTable(here)
	feed(table, 2*manyRounds, silent, nil)
	feed(table, manyRounds, silent, silent)
	if table.Apart(ofA, ofB) {
		t.Error("apart before the late PF has sent long enough")
	}
	feed(table, 1, silent, silent)
	if !table.Apart(ofA, ofB) {
		t.Error("not apart")
	}
	table = NewTable(here)
	pfs := ports()[:2]
	for range 3 * manyRounds {
		table.Add([]Reception{{PF: pfs[0], Flooded: true}, {PF: pfs[1]}}, pfs)
	}
	if table.Apart(ofA, ofB) {
		t.Error("apart, though one cannot hear for the flood")
	}
}

// A verdict stays while a PF has no carrier, and ends with the first frame that one PF hears of the
// other. It comes back only after both have heard nothing for long.
func TestVerdictStays(t *testing.T) {
	table := NewTable(here)
	feed(table, manyRounds+1, silent, silent)
	feed(table, 1, silent, nil)
	if !table.Apart(ofA, ofB) {
		t.Error("the verdict ended with the carrier")
	}
	feed(table, 1, own(2), silent)
	if table.Apart(ofA, ofB) {
		t.Error("apart, though one hears the other")
	}
	feed(table, keepRounds+manyRounds-1, silent, silent)
	if table.Apart(ofA, ofB) {
		t.Error("apart again, too early")
	}
	feed(table, 1, silent, silent)
	if !table.Apart(ofA, ofB) {
		t.Error("not apart again")
	}
	table.Add(nil, ports()[:1])
	if table.Apart(ofA, ofB) || len(table.pairs) > 0 {
		t.Error("a PF that has gone is remembered")
	}
}

// Members of a bond of the host are on one segment: a switch sends no frame back to the bond that
// it came from, so their silence says nothing.
func TestMembersOfAHostBond(t *testing.T) {
	table, pfs := NewTable(here), ports()[:2]
	for i := range pfs {
		pfs[i].Master = &vf.Master{Name: "bond0", Kind: vf.MasterBond}
	}
	for range 3 * manyRounds {
		table.Add([]Reception{{PF: pfs[0]}, {PF: pfs[1]}}, pfs)
	}
	if table.Apart(ofA, ofB) {
		t.Error("apart")
	}
}

// PFs of two bonds only listen, so that their silence says nothing. The silence of a PF that sends
// counts.
func TestMembersOfTwoHostBonds(t *testing.T) {
	for _, bonds := range [][2]string{{"bond0", "bond1"}, {"bond0", ""}} {
		table, pfs := NewTable(here), ports()[:2]
		for i, name := range bonds {
			if name != "" {
				pfs[i].Master = &vf.Master{Name: name, Kind: vf.MasterBond}
			}
		}
		for range 3 * manyRounds {
			table.Add([]Reception{{PF: pfs[0]}, {PF: pfs[1]}}, pfs)
		}
		if got := table.Apart(ofA, ofB); got != (bonds[1] == "") {
			t.Errorf("%q: apart %t", bonds, got)
		}
	}
}

// However many frames a pod forges, the Table uses bounded memory and still hears the PFs of this
// host. It judges no PFs to be apart that hear each other.
func TestForgedFramesAreBounded(t *testing.T) {
	table, pfs := NewTable(here), ports()[:2]
	forged := 0
	for range 3 * manyRounds {
		var heard []Station
		for range 1000 {
			forged++
			heard = append(heard, station(NewNodeID("forged"), forged), station(here, 1000+forged))
		}
		table.Add([]Reception{{PF: pfs[0], Heard: append(heard, station(here, 2))}, {PF: pfs[1]}}, pfs)
		if n := len(table.pfs[ofA].heard); n > mostStations+1 {
			t.Fatalf("%d stations", n)
		}
	}
	if table.Apart(ofA, ofB) {
		t.Error("apart")
	}
	feed(table, keepRounds+1, silent, silent)
	if l := table.pfs[ofA]; len(l.heard) != 0 || l.foreign != 0 {
		t.Errorf("%d stations, %d of other nodes", len(l.heard), l.foreign)
	}
}

// The problem names the pool and the PFs. Pools of PFs with names, and pools on one PF, have none.
func TestProblems(t *testing.T) {
	for name, tc := range map[string]struct{ yaml, want string }{
		"a pool over both": {"pfs: [{name: a, vfs: 2}, {name: b, vfs: 2}]\npools: [{name: x}]", "culvert.dev/x: it has VFs of PFs that do not hear each other: a and b: pods on one probably do not reach"},
		"a pool on each":   {"pfs: [{name: a, vfs: 2}, {name: b, vfs: 2}]\npools: [{name: x, selectors: {pfNames: [a]}}, {name: y}]", ""},
		"one name":         {"pfs: [{name: a, vfs: 2, segment: s}, {name: b, vfs: 2, segment: s}]\npools: [{name: x}]", ""},
		"two names":        {"pfs: [{name: a, vfs: 2, segment: s}, {name: b, vfs: 2, segment: r}]\npools: [{name: x}]", ""},
		"no VFs of one":    {"pfs: [{name: a, vfs: 2}, {name: b, vfs: 0}]\npools: [{name: x}]", ""},
	} {
		table := NewTable(here)
		feed(table, manyRounds+1, silent, silent)
		got := table.Problems(pools(t, tc.yaml), ports()[:2])
		if (tc.want == "") != (len(got) == 0) || len(got) > 1 || len(got) == 1 && !strings.HasPrefix(got[0].Object+": "+got[0].Reason, "pool "+tc.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A frame is read back as the station that sent it, and foreign payloads are refused.
func FuzzParseFrame(f *testing.F) {
	f.Add(station(there, 1).Encode())
	f.Add(append(station(there, 1).Encode(), 0, 0, 0))
	f.Add([]byte("culvert\x02"))
	f.Add([]byte(nil))
	f.Add(make([]byte, 46))
	f.Fuzz(func(t *testing.T, payload []byte) {
		s, ok := parseFrame(payload)
		if !ok {
			return
		}
		if s.PF.IsZero() || s.PF[0]&1 != 0 {
			t.Errorf("address %s", s.PF)
		}
		if got := s.Encode(); len(got) != frameSize || string(payload[:frameSize]) != string(got) {
			t.Errorf("%x is read as %x", payload, got)
		}
	})
}

func TestFrame(t *testing.T) {
	want := station(here, 7)
	if got, ok := parseFrame(append(want.Encode(), make([]byte, 16)...)); !ok || got != want {
		t.Errorf("%v %v", got, ok)
	}
	if len(want.Encode()) > 46 {
		t.Errorf("%d bytes are more than the smallest frame has", len(want.Encode()))
	}
	for name, b := range map[string][]byte{"short": want.Encode()[:frameSize-1], "another version": append([]byte("culvert\x02"), want.Encode()[8:]...), "no address": Station{Node: here}.Encode(), "a group's": Station{here, vf.MAC{1}}.Encode()} {
		if s, ok := parseFrame(b); ok {
			t.Errorf("%s: read as %v", name, s)
		}
	}
	if NewNodeID("a") == NewNodeID("b") {
		t.Error("two nodes have one ID")
	}
}
