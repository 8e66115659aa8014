package text

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/api"
)

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                      "0s",
		59*time.Second + 999*1e6:          "59s",
		time.Minute:                       "1m",
		250 * time.Second:                 "4m10s",
		3*time.Hour + 5*time.Minute + 1e9: "3h5m",
		52 * time.Hour:                    "2d4h",
	} {
		if got := ago(d); got != want {
			t.Errorf("ago(%s) = %s, want %s", d, got, want)
		}
	}
}

func TestBar(t *testing.T) {
	for _, tc := range []struct {
		c    api.Counts
		want string
	}{
		{api.Counts{}, "[]"},
		{api.Counts{Used: 3, Free: 4, Quarantined: 1}, "[###....q]"},
		{api.Counts{Used: 1, Free: 1, Making: 1, Unmanaged: 1}, "[#.+?]"},
		{api.Counts{Used: 16}, "[################]"},
		{api.Counts{Used: 1, Free: 125, Quarantined: 1}, "[#..............q]"},
		{api.Counts{Used: 63, Free: 1}, "[###############.]"},
	} {
		if got := bar(tc.c, plainText).text; got != tc.want {
			t.Errorf("%+v is %s, want %s", tc.c, got, tc.want)
		}
	}
}

// FuzzShare: a scaled bar has all its cells, and what there is shows.
func FuzzShare(f *testing.F) {
	f.Add(uint16(1), uint16(2), uint16(3), uint16(4), uint16(5))
	f.Fuzz(func(t *testing.T, a, b, c, d, e uint16) {
		parts := [5]int{int(a), int(b), int(c), int(d), int(e)}
		got := share(parts, barCells)
		total, sum := 0, 0
		for i, n := range got {
			total += parts[i]
			sum += n
			if (n > 0) != (parts[i] > 0) || n < 0 {
				t.Errorf("%v is drawn as %v", parts, got)
			}
		}
		if sum != min(total, barCells) {
			t.Errorf("%v is drawn as %v: %d cells", parts, got, sum)
		}
	})
}

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
		if diff := cmp.Diff(tc.want, wrap(tc.s, tc.width)); diff != "" {
			t.Errorf("%q in %d (-want +got):\n%s", tc.s, tc.width, diff)
		}
	}
}

func TestTableCutsTheWidestFirst(t *testing.T) {
	tab := table{columns: []column{{head: "A"}, {head: "B", least: 8}, {head: "C", least: 8}, {head: "N", right: true}}}
	tab.row(words("1234567890", strings.Repeat("b", 30), "cccccccccc", "7")...)
	tab.row(words("1", "b", "", "42")...)
	var b strings.Builder
	tab.write(&b, Options{Width: 40})
	want := `A           B             C            N
1234567890  bbbbbbbbbb..  cccccccccc   7
1           b             -           42
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
