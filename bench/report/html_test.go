package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culvert-net/culvert/bench"
)

func drawPage(t *testing.T, r bench.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, r, "r.json.gz"); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var (
	svgs    = regexp.MustCompile(`(?s)<svg.*?</svg>`)
	numbers = regexp.MustCompile(`\b(?:NaN|[+-]?Inf)\b`)
)

// dataLink is the only link of a page.
const dataLink = `<a href="./r.json.gz" download>r.json.gz</a>`

// TestHTML: the page needs no other file, its drawings are well-formed and have a description in
// words, and foreign names are text in it.
func TestHTML(t *testing.T) {
	for name, r := range map[string]bench.Result{"example": makeExample(), "odd": odd(), "empty": {Schema: bench.Schema}} {
		page := drawPage(t, r)
		if strings.Count(page, dataLink) != 1 {
			t.Errorf("%s: no link to the measurements", name)
		}
		page = strings.Replace(page, dataLink, "", 1)
		for _, bad := range []string{"<script", "http:", "https:", "src=", "href=", "url(", "@import", "\u202e", "\x1b", "ZgotmplZ"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s: %q is in the page", name, bad)
			}
		}
		for _, drawing := range svgs.FindAllString(page, -1) {
			checkDrawing(t, name, drawing)
		}
		if bad := numbers.FindString(page); bad != "" {
			t.Errorf("%s: %s is in the page", name, bad)
		}
	}
	page := drawPage(t, makeExample())
	if n := len(svgs.FindAllString(page, -1)); n != 6 {
		t.Errorf("%d drawings, want throughput, its CPU, latency, by size, round trips, over time", n)
	}
	for _, want := range []string{"<h1 data-arm=\"1\" data-base=\"0\">VF carries 2.0 times what the overlay carries.</h1>", "the bytes went another way", "VF 2 of enp1s0f0", "net.core.rmem_max: 212992 against 4194304", "drops badly"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

// The file beside the page has the whole result, and is read as it is.
func TestDataIsTheResult(t *testing.T) {
	if got := DataName("build/lab.html"); got != "build/lab.json.gz" {
		t.Error(got)
	}
	for name, r := range map[string]bench.Result{"example": makeExample(), "odd": odd(), "empty": {Schema: bench.Schema}} {
		var packed bytes.Buffer
		if err := Data(&packed, r); err != nil {
			t.Fatal(err)
		}
		got, err := bench.Read(&packed)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want, _ := json.Marshal(r)
		if again, _ := json.Marshal(got); string(again) != string(want) {
			t.Errorf("%s: the data are not the result: %s", name, cmp.Diff(string(want), string(again)))
		}
	}
}

func checkDrawing(t *testing.T, name, drawing string) {
	t.Helper()
	in := xml.NewDecoder(strings.NewReader(drawing))
	for first := true; ; first = false {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v in %s", name, err, drawing)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		said := false
		for _, a := range e.Attr {
			said = said || a.Name.Local == "aria-label" && len(a.Value) > 10
			if v, err := strconv.ParseFloat(a.Value, 64); err == nil && (math.IsNaN(v) || v < -1 || v > 1000) {
				t.Errorf("%s: %s %s=%q is out of the drawing", name, e.Name.Local, a.Name.Local, a.Value)
			}
		}
		if first && !said {
			t.Errorf("%s: a drawing says nothing: %.100s", name, drawing)
		}
	}
}

// TestBars: bars are in proportion, and the ceiling is where it belongs.
func TestBars(t *testing.T) {
	v := makeView(makeExample())
	f := v.listFigures(v.questions[0])[0]
	bar := regexp.MustCompile(`width="([\d.]+)" height="20.0" rx="2" class="bar`)
	line := regexp.MustCompile(`<line x1="([\d.]+)"[^>]* class="ceiling"`)
	var got []string
	for _, re := range []*regexp.Regexp{bar, line} {
		for _, m := range re.FindAllStringSubmatch(string(f.Drawing), -1) {
			got = append(got, m[1])
		}
	}
	at := func(v float64) string { return fmt.Sprintf("%.1f", 2+352*v/makeExample().Arms[1].CeilingGbps) }
	list := v.rows
	want := []string{at(list[0].Middle.Value), at(list[1].Middle.Value), at(list[0].Ceiling), at(list[1].Ceiling)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSweep(t *testing.T) {
	r := makeExample()
	all := findSweeps(r)
	if len(all) != 1 || !cmp.Equal(all[0].sizes, []int{64, 512, 4096, 32768, 262144}) || len(all[0].lines) != 2 {
		t.Fatalf("%+v", all)
	}
	if l := all[0].lines[1]; l.name != "VF" || !cmp.Equal(l.arms, []int{3, 5, 7, 9, 11}) {
		t.Errorf("%+v", l)
	}
	// Paths with one name have a line each.
	alike := makeExample()
	for i := range alike.Arms {
		if p := &alike.Arms[i].Path; p.Network == "overlay" {
			p.Network = "VF"
		}
	}
	if all := findSweeps(alike); len(all) != 1 || len(all[0].lines) != 2 || all[0].lines[0].name == all[0].lines[1].name {
		t.Errorf("paths with one name: %+v", all)
	}
	checkFiguresDiffer(t, alike)
	// The other direction has a line too.
	back := makeExample()
	for i := 2; i < 12; i += 2 {
		back.Arms[i].Path, back.Arms[i].Workload.Reverse = back.Arms[3].Path, true
	}
	if all := findSweeps(back); len(all) != 1 || len(all[0].lines) != 2 || all[0].lines[0].name != "VF, back" {
		t.Errorf("both directions: %+v", all)
	}
	checkFiguresDiffer(t, back)
	two := r
	two.Arms = r.Arms[:6]
	if got := findSweeps(two); got != nil {
		t.Errorf("two sizes are no sweep: %+v", got)
	}
}

// Each point of a sweep has a bar of its spread, for the rate and for the processors: the 95 % interval, or with
// fewer than six runs from the least to the largest.
func TestSweepsShowTheirSpread(t *testing.T) {
	r := makeExample()
	spread := regexp.MustCompile(`<line x1="[\d.]+" y1="([\d.]+)" x2="[\d.]+" y2="([\d.]+)" class="spread`)
	f := makeView(r).drawSweep(findSweeps(r)[0])
	found := spread.FindAllStringSubmatch(string(f.Drawing), -1)
	if len(found) != 20 {
		t.Fatalf("%d bars, want two for each of 10 arms", len(found))
	}
	y := linearAxis(168, 20, 9.41)
	e := bench.Estimate(r.Values(2, r.Arms[2].Main()))
	if want := []string{fmt.Sprintf("%.1f", y.positionOf(e.Low)), fmt.Sprintf("%.1f", y.positionOf(e.High))}; !cmp.Equal(found[0][1:], want) {
		t.Errorf("the first bar is %q, want %q", found[0][1:], want)
	}
	if !strings.Contains(f.Note, "95 % interval") {
		t.Error(f.Note)
	}
	if got := spanOf([]float64{3, 1, 2}); got.Value != 2 || got.Low != 1 || got.High != 3 {
		t.Errorf("of three runs: %+v", got)
	}
	few := makeExample()
	few.Runs = slices.DeleteFunc(few.Runs, func(run bench.Run) bool { return run.Arm == 2 && run.Gbps > 0.255 })
	if f := makeView(few).drawSweep(findSweeps(few)[0]); !strings.Contains(f.Note, "from the least run to the largest") {
		t.Error(f.Note)
	}
}

func TestAxis(t *testing.T) {
	y := linearAxis(100, 0, 9.41)
	if y.most != 10 || y.positionOf(0) != 100 || y.positionOf(5) != 50 || y.positionOf(99) != 0 {
		t.Errorf("%+v: %g %g %g", y, y.positionOf(0), y.positionOf(5), y.positionOf(99))
	}
	l := logarithmicAxis(0, 30, 35, 1362)
	if l.least != 10 || l.most != 10000 || math.Abs(l.positionOf(100)-10) > 1e-9 || l.positionOf(1) != 0 || !cmp.Equal(l.listTicks(), []float64{10, 100, 1000, 10000}) {
		t.Errorf("%+v: %g %g %v", l, l.positionOf(100), l.positionOf(1), l.listTicks())
	}
	for v, want := range map[float64]string{0: "0", 0.25: "0.25", 2.5: "2.5", 1000: "1000", 1e4: "10k", 1.5e6: "1.5M", 1e15: "1P"} {
		if got := tick(v); got != want {
			t.Errorf("tick(%g) = %s, want %s", v, got, want)
		}
	}
}

func TestRounds(t *testing.T) {
	for most, want := range map[float64][]float64{
		0:            {0},
		2:            {0, 0.5, 1, 1.5, 2},
		6.006:        {0, 2, 4, 6},
		10.02:        {0, 2, 4, 6, 8, 10},
		29.999999999: {0, 5, 10, 15, 20, 25, 30},
		math.Inf(1):  {0},
		math.NaN():   {0},
	} {
		if got := rounds(most); !cmp.Equal(got, want, cmpopts.EquateApprox(1e-12, 0)) {
			t.Errorf("rounds(%g) = %g, want %g", most, got, want)
		}
	}
}

// TestContrast: letters stand out from their background by 4.5 to 1 and lines by 3 to 1 (WCAG 2.1,
// 1.4.3 and 1.4.11), light and dark.
func TestContrast(t *testing.T) {
	scheme := regexp.MustCompile(`:root \{([^}]*)\}`)
	colour := regexp.MustCompile(`--(\w+): #(\w{6})`)
	all := scheme.FindAllStringSubmatch(page, -1)
	if len(all) != 2 {
		t.Fatalf("%d schemes", len(all))
	}
	for i, s := range all {
		light := map[string]float64{}
		for _, m := range colour.FindAllStringSubmatch(s[1], -1) {
			n, err := strconv.ParseUint(m[2], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			light[m[1]] = 0.2126*channel(n>>16) + 0.7152*channel(n>>8) + 0.0722*channel(n)
		}
		for front, backs := range map[string][]string{
			"ink": {"page", "card", "track", "warnback"}, "soft": {"page", "card", "track"}, "warn": {"warnback"},
			"c1": {"card", "track"}, "c2": {"card", "track"}, "c3": {"card", "track"}, "c4": {"card"}, "c5": {"card"}, "c6": {"card"}, "c7": {"card", "track"}, "c8": {"card", "track"}, "c9": {"card", "track"}, "c10": {"card", "track"},
		} {
			want := 4.5
			if front[0] == 'c' {
				want = 3
			}
			for _, back := range backs {
				a, b := light[front], light[back]
				if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < want {
					t.Errorf("scheme %d: %s on %s: %.2f", i, front, back, ratio)
				}
			}
		}
	}
}

// channel is a byte of sRGB made linear.
func channel(n uint64) float64 {
	v := float64(n&255) / 255
	if v <= 0.04045 {
		return v / 12.92
	}
	return math.Pow((v+0.055)/1.055, 2.4)
}
