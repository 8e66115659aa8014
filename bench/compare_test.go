package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var lab = Comparison{
	Slow:   Way{Name: "overlay", Gbps: []float64{0.061, 0.0594, 0.064}, Retransmits: []float64{12, 3, 40}, Gigabits: []float64{0.25, 0.25, 0.25}, CPU: []float64{30.2, 31, 29}, PingMS: 2.412},
	Fast:   Way{Name: "VF", Gbps: []float64{0.312, 0.301, 0.322}, Retransmits: []float64{0, 0, 1}, Gigabits: []float64{1, 1, 1}, CPU: []float64{6.11, 6.4, 6}, PingMS: 1.61},
	Source: "R0 printed: XL710 10G", OldSlow: Printed{Name: "R0 Calico", Gbps: 4.59, Retransmits: 15580, Gigabits: 45.9},
	OldFast: Printed{Name: "R0 VF", Gbps: 9.42, Retransmits: 25, Gigabits: 94.2, PingMS: 0.212},
}

func TestComparisonText(t *testing.T) {
	want := strings.TrimPrefix(`
                                 overlay               VF     VF : overlay R0 Calico  R0 VF  ratio
--------------------------------------------------------------------------------------------------
Gb/s, median                      0.0610            0.312            5.11x      4.59   9.42  2.05x
  spread of 3 and 3      0.0594 - 0.0640    0.301 - 0.322    4.70x - 5.42x
retransmits, median                   12                0                      15580     25
  for each Gb                         48                0            0.00x       339  0.265
CPUs per Gb/s, median               30.2             6.11            0.20x         -      -
ping, ms average                    2.41             1.61            0.67x         -  0.212

this run, median
  overlay    ############                                                 0.0610 Gb/s
  VF         ############################################################ 0.312 Gb/s
R0 printed: XL710 10G
  R0 Calico  #############################                                4.59 Gb/s
  R0 VF      ############################################################ 9.42 Gb/s
`, "\n")
	if diff := cmp.Diff(want, lab.Text(Look{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for line := range strings.Lines(lab.Text(Look{Unicode: true})) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if text := lab.Text(Look{Unicode: true}); strings.Contains(text, "\x1b") {
		t.Errorf("colours without a wish for them: %q", text)
	}
}

// TestComparisonEmpty: a run that measured nothing prints dashes, not NaN.
func TestComparisonEmpty(t *testing.T) {
	text := Comparison{Slow: Way{Name: "a"}, Fast: Way{Name: "b"}}.Text(Look{Colour: true, Unicode: true})
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Errorf("got\n%s", text)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 15580: "15580", 0.212: "0.212", 4.59: "4.59", 0.0123456: "0.0123", 31.27: "31.3", 312.4: "312", -2.5: "-2.50", 1e-9: "0.000000",
	} {
		if got := Number(v); got != want {
			t.Errorf("Number(%g) = %s, want %s", v, got, want)
		}
	}
}

// TestComparisonSVG: the chart is well-formed XML whatever the names and
// figures are, and its bars are in proportion.
func TestComparisonSVG(t *testing.T) {
	odd := lab
	odd.Source = `<R0> & "others"`
	for name, c := range map[string]Comparison{"lab": lab, "odd": odd, "empty": {}} {
		in := xml.NewDecoder(strings.NewReader(c.SVG()))
		var widths []string
		for {
			token, err := in.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v in\n%s", name, err, c.SVG())
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
				for _, a := range e.Attr {
					if a.Name.Local == "width" {
						widths = append(widths, a.Value)
					}
				}
			}
		}
		want := []string{"100%", "90.9", "465.1", "233.9", "480.0"}
		if name == "empty" {
			want = []string{"100%", "0.0", "0.0", "0.0", "0.0"}
		}
		if diff := cmp.Diff(want, widths); diff != "" {
			t.Errorf("%s: widths: -want +got:\n%s", name, diff)
		}
	}
}
