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
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var (
	svgs    = regexp.MustCompile(`(?s)<svg.*?</svg>`)
	scripts = regexp.MustCompile(`(?s)<script[^>]*>(.*?)</script>`)
	numbers = regexp.MustCompile(`\b(?:NaN|[+-]?Inf)\b`)
)

// TestHTML: the page needs no other file, its drawings are well-formed and have a description in
// words, foreign names are text in it, and its data are the result.
func TestHTML(t *testing.T) {
	for name, r := range map[string]bench.Result{"example": makeExample(), "odd": odd(), "empty": {Schema: bench.Schema}} {
		page := drawPage(t, r)
		found := scripts.FindAllStringSubmatch(page, -1)
		if len(found) != 1 || !strings.Contains(found[0][0], `type="application/json" id="result"`) {
			t.Fatalf("%s: scripts: %q", name, found)
		}
		var want bytes.Buffer
		if err := json.NewEncoder(&want).Encode(r); err != nil {
			t.Fatal(err)
		}
		if got, err := bench.Read(strings.NewReader(found[0][1])); err != nil {
			t.Errorf("%s: the data: %v", name, err)
		} else if again, _ := json.Marshal(got); string(again)+"\n" != want.String() {
			t.Errorf("%s: the data are not the result: %s", name, cmp.Diff(want.String(), string(again)))
		}
		shown := strings.Replace(page, found[0][0], "", 1)
		for _, bad := range []string{"<script", "http:", "https:", "src=", "href=", "url(", "@import", "\u202e", "\x1b", "ZgotmplZ"} {
			if strings.Contains(shown, bad) {
				t.Errorf("%s: %q is in the page", name, bad)
			}
		}
		for _, drawing := range svgs.FindAllString(shown, -1) {
			checkDrawing(t, name, drawing)
		}
		if bad := numbers.FindString(shown); bad != "" {
			t.Errorf("%s: %s is in the page", name, bad)
		}
	}
	page := drawPage(t, makeExample())
	if n := len(svgs.FindAllString(page, -1)); n != 5 {
		t.Errorf("%d drawings, want throughput, latency, by size, round trips, over time", n)
	}
	for _, want := range []string{"VF carries 2.01x the overlay&#39;s throughput (1.95x to 2.05x, p=0.01, n=6)", "the bytes went another way", "VF 2 of enp1s0f0", "net.core.rmem_max: 212992 against 4194304", "drops badly"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
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
	f := barFigures(makeExample())[0]
	bar := regexp.MustCompile(`width="([\d.]+)" height="20.0" rx="2" class="bar`)
	line := regexp.MustCompile(`<line x1="([\d.]+)"[^>]* class="ceiling"`)
	var got []string
	for _, re := range []*regexp.Regexp{bar, line} {
		for _, m := range re.FindAllStringSubmatch(string(f.Drawing), -1) {
			got = append(got, m[1])
		}
	}
	at := func(v float64) string { return fmt.Sprintf("%.1f", 2+352*v/makeExample().Arms[1].CeilingGbps) }
	list := listRows(makeExample())
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
	if l := all[0].lines[1]; l.name != "pod-pod, VF, other node" || !cmp.Equal(l.arms, []int{3, 5, 7, 9, 11}) {
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
	two := r
	two.Arms = r.Arms[:6]
	if got := findSweeps(two); got != nil {
		t.Errorf("two sizes are no sweep: %+v", got)
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
