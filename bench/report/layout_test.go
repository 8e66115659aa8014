package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/screen"
)

// letters is how wide DejaVu Sans draws letters, in thousandths of its size (its table hmtx); 700 is more than
// most others have.
var letters = map[rune]float64{
	' ': 318, '%': 950, '(': 390, ')': 390, ',': 318, '-': 361, '.': 318, '/': 337, ':': 337, '~': 838, '…': 1000,
	'a': 613, 'b': 635, 'c': 550, 'd': 635, 'e': 615, 'f': 352, 'g': 635, 'h': 634, 'i': 278, 'j': 278, 'k': 579, 'l': 278, 'm': 974, 'n': 634, 'o': 612,
	'p': 635, 'q': 635, 'r': 411, 's': 521, 't': 392, 'u': 634, 'v': 592, 'w': 818, 'x': 592, 'y': 592, 'z': 525,
	'0': 636, '1': 636, '2': 636, '3': 636, '4': 636, '5': 636, '6': 636, '7': 636, '8': 636, '9': 636,
	'B': 686, 'C': 698, 'F': 575, 'G': 775, 'I': 295, 'K': 656, 'M': 863, 'P': 603, 'T': 611, 'U': 732, 'V': 684,
}

type box struct {
	text                     string
	left, right, top, bottom float64
}

var (
	viewBox  = regexp.MustCompile(`viewBox="0 0 (\d+) (\d+)"`)
	textElem = regexp.MustCompile(`<text x="([\d.-]+)" y="([\d.-]+)" class="([^"]*)">([^<]*)</text>`)
)

// textBoxes returns the boxes of a drawing's texts, by the fonts of the page's style.
func textBoxes(t *testing.T, drawing string) (all []box) {
	t.Helper()
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, m := range textElem.FindAllStringSubmatch(drawing, -1) {
		classes, size, width := strings.Fields(m[3]), 13.0, 0.0
		text := strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">", "&#39;", "'", "&#34;", `"`).Replace(m[4])
		for _, c := range text {
			if w, known := letters[c]; known {
				width += w / 1000
			} else {
				width += 0.7
			}
		}
		if slices.Contains(classes, "axis") {
			size = 12
		}
		if slices.Contains(classes, "value") {
			width *= 1.1 // bold
		}
		x, y := number(m[1]), number(m[2])
		b := box{text, x, x + width*size, y - 0.76*size, y + 0.24*size}
		switch {
		case slices.Contains(classes, "end"):
			b.left, b.right = x-width*size, x
		case slices.Contains(classes, "middle"):
			b.left, b.right = x-width*size/2, x+width*size/2
		}
		all = append(all, b)
	}
	return all
}

// checkLabels checks that each text of a drawing is within it, and covers no other text.
func checkLabels(t *testing.T, name, drawing string) {
	t.Helper()
	m := viewBox.FindStringSubmatch(drawing)
	width, _ := strconv.ParseFloat(m[1], 64)
	height, _ := strconv.ParseFloat(m[2], 64)
	all := textBoxes(t, drawing)
	for i, a := range all {
		if a.left < -0.5 || a.right > width+0.5 || a.top < -0.5 || a.bottom > height+0.5 {
			t.Errorf("%s: %q is cut: %+v in %g x %g", name, a.text, a, width, height)
		}
		for _, b := range all[:i] {
			if a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom {
				t.Errorf("%s: %q covers %q", name, a.text, b.text)
			}
		}
	}
}

// makeCrowded returns a result whose labels need much room: long names, small and large figures, many sizes.
func makeCrowded() bench.Result {
	r := makeExample()
	for i := range r.Arms {
		p := &r.Arms[i].Path
		p.Ends, p.Place = "VM-VM", "same PF, in a rack with a long name of its own, of which WWW is a part"
		p.From.Interface, p.To.Interface = "enp193s0f1np1v15", "enp193s0f1np1v14"
	}
	other := r.Arms[1]
	other.Path.From.Interface, other.Name = "enp193s0f1np1v13", "the same over another interface"
	r.Arms = append(r.Arms, other)
	for i := range r.Runs {
		run := &r.Runs[i]
		run.Gbps /= 7e6
		for k := range run.Series {
			run.Series[k] /= 7e6
		}
		if run.Arm == 1 {
			again := *run
			again.Arm = len(r.Arms) - 1
			r.Runs = append(r.Runs, again)
		}
	}
	sized := r.Arms[3] // three more sizes, near to others
	for k, size := range []int{128, 1 << 20, 100_001} {
		sized.Name, sized.Workload.Size = fmt.Sprint("size ", k), size
		r.Arms = append(r.Arms, sized)
		for _, run := range r.Counted(3) {
			run.Arm = len(r.Arms) - 1
			r.Runs = append(r.Runs, run)
		}
	}
	return r
}

// Labels fit: no text of a chart is cut off or covers another.
func TestLabelsFit(t *testing.T) {
	results := map[string]bench.Result{"made up": makeExample(), "crowded": makeCrowded(), "several": makeSeveral(), "middle": makeMiddle()}
	for _, name := range listExamples(t) {
		results[name] = readExample(t, name)
	}
	n := 0
	for name, r := range results {
		for _, drawing := range svgs.FindAllString(drawPage(t, r), -1) {
			n += len(textBoxes(t, drawing))
			checkLabels(t, name, drawing)
		}
	}
	if n < 200 {
		t.Errorf("only %d labels were found", n)
	}
}

// widthOf is never less than the font's own width of what labels have.
func TestWidthsAreUpperBounds(t *testing.T) {
	for c, w := range letters {
		if got := widthOf(string(c), 1000, false); got < w && c != '~' {
			t.Errorf("%q has %g, and %g was assumed", c, w, got)
		}
	}
}

// Each report's figure is said once on the page, behind its question, and nowhere else. An arm is named by
// its path and question.
func TestEachPresetIsSaidOnce(t *testing.T) {
	word := regexp.MustCompile(`\b[mM](?:1[0-8]|[1-9])\b`)
	for _, name := range listExamples(t) {
		r := readExample(t, name)
		_, body, _ := strings.Cut(drawPage(t, r), "<body>")
		text := regexp.MustCompile(`(?s)<svg.*?</svg>|<[^>]*>`).ReplaceAllString(body, " ")
		count := map[string]int{}
		for _, m := range word.FindAllString(text, -1) {
			count[m]++
		}
		for _, preset := range strings.Fields(r.Preset) {
			if n := count[strings.ToUpper(preset)]; n != 1 {
				t.Errorf("%s: %s is said %d times", name, preset, n)
			}
			delete(count, strings.ToUpper(preset))
		}
		if len(count) > 0 {
			t.Errorf("%s: also %v", name, count)
		}
		grey := regexp.MustCompile(`<span class="m">([^<]*)</span>`).FindAllStringSubmatch(page, -1)
		if len(grey) == 0 {
			t.Errorf("%s: no preset is grey", name)
		}
		for i, a := range makeView(r).Arms {
			if !strings.HasPrefix(a.Name, r.Arms[i].Path.Network) || word.MatchString(a.Name) {
				t.Errorf("%s: arm %q is called %q", name, r.Arms[i].Name, a.Name)
			}
		}
	}
}

// Labels are those of the same result with its labels as names, and different arms keep different names.
func TestLabels(t *testing.T) {
	r := readExample(t, "../../docs/examples/bench-lab.html")
	var got []string
	for _, l := range labelArms(r)[:10] {
		got = append(got, l.full())
	}
	want := []string{
		"host node-node, TCP", "overlay node-node, TCP", "overlay node-pod, TCP", "overlay pod-node, TCP", "overlay pod-pod, TCP", "VLAN pod-pod, TCP",
		"VF pod-pod, TCP", "VF pod-node, pings", "VF pod-pod, pings", "overlay pod-pod, pings",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for name, r := range map[string]bench.Result{"lab": r, "made up": makeExample(), "crowded": makeCrowded(), "odd": odd(), "middle": makeMiddle()} {
		seen := map[string]bool{}
		for i, l := range labelArms(withLabels(r)) {
			if first := labelArms(r)[i]; l.full() != first.full() {
				t.Errorf("%s: %q, then %q", name, first.full(), l.full())
			}
			if seen[l.full()] {
				t.Errorf("%s: two arms are called %q", name, l.full())
			}
			seen[l.full()] = true
		}
	}
	note := withLabels(bench.Result{Preset: "m1 m10", Arms: []bench.Arm{
		{Name: "VF m1", Path: bench.Path{Network: "VF"}, Workload: bench.Workload{Kind: bench.Stream}},
		{Name: "VF m10", Path: bench.Path{Network: "VF"}, Workload: bench.Workload{Kind: bench.Packets}},
	}, Notes: []string{"m10: so it is", "VF m1: lost", "m11: not measured"}})
	if want := []string{"packets: so it is", "VF, TCP: lost", "m11: not measured"}; !slices.Equal(note.Notes, want) {
		t.Errorf("%q, want %q", note.Notes, want)
	}
}

// Limits that the NIC accepts and does not enforce have no bars and no lines, on the page and in the text. The report
// says so, and the table has the figures.
func TestUnenforcedLimitsAreNotDrawn(t *testing.T) {
	limited := func(got ...float64) bench.Result {
		r := bench.Result{Schema: bench.Schema, Machines: []bench.Machine{{Name: "a"}, {Name: "b"}}}
		path := bench.Path{Ends: "pod-pod", Network: "VF", From: bench.End{Machine: "a"}, To: bench.End{Machine: "b"}}
		for i, limit := range []int{10, 1000} {
			r.Arms = append(r.Arms, bench.Arm{Name: fmt.Sprint("limit ", limit), Path: path, Workload: bench.Workload{Kind: bench.Stream, RateLimit: limit}})
			for range 6 {
				r.Runs = append(r.Runs, bench.Run{Arm: i, Seconds: 1, Gbps: got[i], Series: []float64{got[i], got[i], got[i]}})
			}
		}
		return r
	}
	kept, ignored := limited(0.0095, 0.94), limited(0.8, 0.8)
	for name, c := range map[string]struct {
		r    bench.Result
		bars int
	}{"kept": {kept, 2}, "ignored": {ignored, 0}} {
		page := drawPage(t, c.r)
		if n := strings.Count(page, `class="bar `); n != c.bars {
			t.Errorf("%s: %d bars", name, n)
		}
		if n := strings.Count(page, "<polyline"); n != 6*c.bars {
			t.Errorf("%s: %d lines over time", name, n)
		}
		said := "The NIC accepts max_tx_rate and does not enforce it: 800 Mb/s arrived at a limit of 10 Mb/s."
		if strings.Contains(page, said) != (c.bars == 0) || !strings.Contains(page, "VF, 10 Mb/s</th>") {
			t.Errorf("%s:\n%s", name, page)
		}
		text := Text(c.r, screen.Look{})
		if strings.Contains(text, "####") != (c.bars > 0) || strings.Contains(strings.Join(strings.Fields(text), " "), said) != (c.bars == 0) {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}
