package report

import (
	"bytes"
	"encoding/csv"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/screen"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with a file of testdata, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile("testdata/"+name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// TestExample: the result from which the tests make their reports is also kept as a file.
func TestExample(t *testing.T) {
	var b bytes.Buffer
	if err := bench.Write(&b, makeExample()); err != nil {
		t.Fatal(err)
	}
	golden(t, "example.json", b.String())
}

func TestText(t *testing.T) {
	text := Text(makeExample(), screen.Look{Unicode: true})
	golden(t, "example.txt", text)
	checkText(t, text)
	if colours := Text(makeExample(), screen.Look{Color: true}); !strings.Contains(colours, "\x1b[1mthroughput") {
		t.Error("no colours")
	}
}

func checkText(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := screen.Columns(line); n > 100 || line != strings.TrimRight(line, " ") {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	for _, bad := range []string{"NaN", "Inf", "\x1b", "\r", "\x00"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q in\n%s", bad, text)
		}
	}
}

// No line exceeds a narrow terminal, and tables are laid out for it.
func TestWorstTextsFit(t *testing.T) {
	sides := bench.CompareSides(asSides(makeCrowded(), func(int, *bench.Run) {}), nil)
	for name, draw := range map[string]func(screen.Look) string{
		"example": func(l screen.Look) string { return Text(makeExample(), l) }, "crowded": func(l screen.Look) string { return Text(makeCrowded(), l) },
		"several": func(l screen.Look) string { return Text(makeSeveral(), l) }, "middle": func(l screen.Look) string { return Text(makeMiddle(), l) },
		"odd": func(l screen.Look) string { return Text(odd(), l) }, "brief": func(l screen.Look) string { return Brief(makeCrowded(), l) },
		"sides": func(l screen.Look) string { return AgainstText(sides, l) },
	} {
		for _, width := range []int{200, 100, 60, 40} {
			look := screen.Look{Width: width}
			text := draw(look)
			if most := screen.Columns(slices.MaxFunc(strings.Split(text, "\n"), func(a, b string) int { return screen.Columns(a) - screen.Columns(b) })); width >= 60 && name != "odd" && most > min(width, 100) { // odd has values that no NIC has
				t.Errorf("%s in %d columns has a line of %d before it is broken", name, width, most)
			}
			for line := range strings.Lines(look.Fit(text)) {
				if n := screen.Columns(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%s in %d columns: %d columns: %s", name, width, n, line)
				}
			}
		}
	}
}

func TestCSV(t *testing.T) {
	var b bytes.Buffer
	if err := CSV(&b, makeExample()); err != nil {
		t.Fatal(err)
	}
	golden(t, "example.csv", b.String())
	if err := CSV(&b, odd()); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if last := lines[len(lines)-1]; last[1] != "'=cmd|' /C calc'!A0" {
		t.Errorf("a name that is a formula: %q", last[1])
	}
}

// Brief is the part of the text that compares.
func TestBrief(t *testing.T) {
	text, brief := Text(makeExample(), screen.Look{}), Brief(makeExample(), screen.Look{})
	checkText(t, brief)
	for paragraph := range strings.SplitSeq(strings.TrimSpace(brief), "\n\n") {
		if !strings.Contains(text, paragraph) {
			t.Errorf("Text has no\n%s", paragraph)
		}
	}
	for _, want := range []string{"carries", "ARM ", "PRINTED BY", "####"} {
		if !strings.Contains(brief, want) {
			t.Errorf("no %q in\n%s", want, brief)
		}
	}
	if strings.Contains(brief, "machines") {
		t.Errorf("more than a comparison:\n%s", brief)
	}
}

// Printed retransmits stand beside the run's own, without a ratio: the runs differ in length.
func TestRetransmitsStandBesidePrintedOnes(t *testing.T) {
	r := makeExample()
	r.Printed = []bench.Figure{{Name: "R0 Calico", Arm: r.Arms[0].Name, Value: 15580, Unit: bench.RetransmitsUnit}}
	counts := []uint64{3, 5, 40}
	for i, n := 0, 0; i < len(r.Runs) && n < len(counts); i++ {
		if run := &r.Runs[i]; run.Arm == 0 && run.Void == "" && !run.Discard {
			run.Retransmits = &counts[n]
			n++
		}
	}
	want := beside{Name: "R0 Calico", Printed: "15580 retransmits", Arm: r.Arms[0].Name, Here: "5 retransmits", Ratio: "-"}
	if diff := cmp.Diff([]beside{want}, listPrinted(r)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A printed round trip is the average that ping prints, so the mean stands beside it and not the median.
func TestPrintedAveragesStandBesideMeans(t *testing.T) {
	r := makeExample()
	arm := len(r.Arms) - 1 // whose mean is a tenth above its median
	r.Printed = []bench.Figure{{Name: "R0 to a VF", Arm: r.Arms[arm].Name, Value: 212, Unit: "us"}}
	d, found := spreadOf(r, arm)
	got := listPrinted(r)
	if !found || d.Mean == d.P50 || len(got) != 1 || got[0].Here != bench.Number(d.Mean)+" us" {
		t.Errorf("%+v beside a mean of %g and a median of %g", got, d.Mean, d.P50)
	}
}

// The description of a workload names all that sets it apart from others.
func TestLoad(t *testing.T) {
	w := bench.Workload{Engine: "culvert", Kind: bench.Request, Streams: 2, Size: 3 << 20, Flows: 8, Sources: 5, MACs: 4, Senders: 3, Window: 512, Rate: 7, RateLimit: 50, Burst: 64, UDP: true, Pulled: true, ByHand: true, Reverse: true, Seconds: 2}
	want := "culvert request, 2 streams, 3 MiB, 8 flows, 5 sources, 4 MAC addresses, 3 senders, window of 512 B, 7 a second, VF limited to 50 Mb/s, " +
		"bursts of 64, UDP, the cable is pulled by hand, the other end sends, 2 s"
	if got := describeLoad(w); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := describeRounds([2]int{3, 4}); got != "3 and 4 rounds" {
		t.Error(got)
	}
}
