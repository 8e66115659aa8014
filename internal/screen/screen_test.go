package screen

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWrap(t *testing.T) {
	for _, tc := range []struct {
		s     string
		width int
		want  []string
	}{
		{"", 10, []string{""}},
		{"a bb ccc", 4, []string{"a bb", "ccc"}},
		{"a longlonglong b", 4, []string{"a", "longlonglong", "b"}},
		{"a  b c", 0, []string{"a b c"}},
	} {
		if diff := cmp.Diff(tc.want, Wrap(tc.s, tc.width)); diff != "" {
			t.Errorf("%q in %d (-want +got):\n%s", tc.s, tc.width, diff)
		}
	}
}

func TestTableCutsTheWidestFirst(t *testing.T) {
	tab := Table{Columns: []Column{{Head: "A"}, {Head: "B", Least: 8}, {Head: "C", Least: 8}, {Head: "N", Right: true}}}
	tab.Add(Words("1234567890", strings.Repeat("b", 30), "cccccccccc", "7")...)
	tab.Add(Words("1", "b", "", "42")...)
	var b strings.Builder
	tab.Write(&b, Look{Width: 40})
	want := `A           B             C            N
1234567890  bbbbbbbbbb..  cccccccccc   7
1           b             -           42
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestShorten shows that short names stay different if the names differ at their ends.
func TestShorten(t *testing.T) {
	for width, want := range map[int]string{30: "VF net1-net1 m6 64 B back", 14: "VF n..4 B back", 4: "..ck", 2: ".."} {
		if got := ShortenAll([]string{"VF net1-net1 m6 64 B back"}, width)[0]; got != want {
			t.Errorf("in %d columns: %q, want %q", width, got, want)
		}
	}
}

// Different names stay different when they are cut, wherever they differ.
func TestShortNamesDiffer(t *testing.T) {
	for _, names := range [][]string{
		{"overlay flannel.1-flannel.1 m1 m2 m3", "overlay flannel.1-eth0 m1 m2 m3", "overlay eth0-flannel.1 m1 m2 m3", "overlay eth0-eth0 m1 m2 m3", "VF"},
		{"VF net1-enp1s0 m17 10 Mb/s", "VF net1-net1 m17 10 Mb/s", "VF net1-net1 m17 100 Mb/s"},
		{strings.Repeat("a", 30) + "1" + strings.Repeat("b", 30), strings.Repeat("a", 30) + "2" + strings.Repeat("b", 30), strings.Repeat("a", 30) + "3" + strings.Repeat("b", 30)},
	} {
		for width := 6; width < 40; width++ {
			short := map[string]bool{}
			for i, s := range ShortenAll(names, width) {
				if short[s] = true; Columns(s) > width || Columns(names[i]) <= width && s != names[i] {
					t.Errorf("%q in %d columns is %q", names[i], width, s)
				}
			}
			if len(short) != len(names) {
				t.Errorf("%d columns: %d names of %q: %v", width, len(short), names, short)
			}
		}
	}
	if got := ShortenAll([]string{"the same name", "the same name"}, 8); got[0] != got[1] {
		t.Errorf("%q", got)
	}
}

// The names of a table stay different, and Fits reports whether the table needs no cut.
func TestTableKeepsNamesApart(t *testing.T) {
	tab := NewTable("NAME", "TEXT")
	tab.Add(Words("overlay flannel.1-flannel.1 m1", "x")...)
	tab.Add(Words("overlay flannel.1-eth0 m1", "x")...)
	var b strings.Builder
	tab.Write(&b, Look{Width: 18})
	lines := strings.Split(b.String(), "\n")
	if len(lines) < 3 || lines[1] == lines[2] || !strings.Contains(lines[1], "..") {
		t.Errorf("%q", lines)
	}
	if tab.Fits(Look{Width: 18}) || !tab.Fits(Look{Width: 80}) {
		t.Errorf("fits: %v %v", tab.Fits(Look{Width: 18}), tab.Fits(Look{Width: 80}))
	}
}

// A table that does not fit although its columns are cut is written as blocks, and no line is too
// long.
func TestTableAsBlocks(t *testing.T) {
	tab := Table{Indent: 1, Columns: []Column{{Head: "NAME"}, {Head: "ADDRESS"}, {Head: "N", Right: true}, {}}}
	tab.Add(Cell{Text: "a-long-name"}, Cell{Text: "fd00:1:2:3:4:5:6:7"}, Cell{Text: "7"}, Cell{Text: "[##]", Painted: "<##>"})
	tab.Add(Words("b", "", "8", "")...)
	var b strings.Builder
	tab.Write(&b, Look{Width: 24})
	want := ` a-long-name
   ADDRESS  fd00:1:2:3:4
            :5:6:7
   N        7
            <##>
 b
   ADDRESS  -
   N        8
            -
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if tab.Fits(Look{Width: 24}) {
		t.Error("it fits")
	}
	var wide strings.Builder
	tab.Write(&wide, Look{Width: 24, Wide: true})
	if !strings.HasPrefix(wide.String(), " NAME         ADDRESS             N\n") {
		t.Errorf("all columns were wanted:\n%s", wide.String())
	}
}

// WrapAll breaks a word that is longer than a line, and Wrap keeps it whole.
func TestWrapAll(t *testing.T) {
	if got, want := WrapAll("a longlonglong b", 4), []string{"a", "long", "long", "long", "b"}; !cmp.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A column whose head begins with ">" has numbers, which are aligned to the right.
func TestNewTable(t *testing.T) {
	tab := NewTable("NAME", ">N")
	tab.Add(Words("a", "12")...)
	tab.Add(Words("", "3")...)
	var b strings.Builder
	tab.Write(&b, Look{})
	if diff := cmp.Diff("NAME   N\na     12\n-      3\n", b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Text is painted only for a terminal that shows colours, and a cell of a table uses Painted only
// if it is not cut.
func TestLook(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{Look{}.Paint("x", Red), "x"},
		{Look{Color: true}.Paint("x", Red), "\x1b[31mx\x1b[0m"},
		{Look{Color: true}.Paint("", Red), ""},
		{Look{}.Bar(0.5, 4), "##"},
		{Look{}.Bar(0.001, 4), "#"},
		{Look{}.Bar(0, 4), ""},
		{Look{Unicode: true}.Bar(0.53, 4), "██▏"},
	} {
		if tc.got != tc.want {
			t.Errorf("%q, want %q", tc.got, tc.want)
		}
	}
	tab := Table{Indent: 2, Columns: []Column{{Head: "N", Least: 2, Shorten: true}, {Head: "X"}}}
	tab.Add(Cell{Text: "front-back"}, Cell{Text: "[#]", Painted: "<#>"})
	for look, want := range map[Look]string{
		{Width: 13}:             "  N       X\n  f..ack  <#>\n",
		{Color: true}:           "  \x1b[1mN\x1b[0m           \x1b[1mX\x1b[0m\n  front-back  <#>\n",
		{Width: 13, Wide: true}: "  N           X\n  front-back  <#>\n",
	} {
		var b strings.Builder
		tab.Write(&b, look)
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", look, diff)
		}
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                      "0s",
		59*time.Second + 999*1e6:          "59s",
		1500 * time.Millisecond:           "1s",
		61 * time.Second:                  "1m1s",
		2*time.Hour + 61*time.Second:      "2h1m",
		time.Minute:                       "1m",
		250 * time.Second:                 "4m10s",
		3*time.Hour + 5*time.Minute + 1e9: "3h5m",
		52 * time.Hour:                    "2d4h",
	} {
		if got := Ago(d); got != want {
			t.Errorf("Ago(%s) = %s, want %s", d, got, want)
		}
	}
}

func TestPlural(t *testing.T) {
	if got := Plural(0, "VF") + ", " + Plural(1, "VF") + ", " + Plural(2, "VF") + ", " + Plural(2, "address"); got != "0 VFs, 1 VF, 2 VFs, 2 addresses" {
		t.Error(got)
	}
}
