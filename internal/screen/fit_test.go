package screen

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Lines that are too long are broken, colours do not count, and other lines stay.
func TestFit(t *testing.T) {
	const red, end = "\x1b[31m", "\x1b[0m"
	for _, tc := range []struct{ text, want string }{
		{"short\n  a  b\n", "short\n  a  b\n"},
		{"  one two three", "  one two\n    three"},
		{"x 0123456789abcdef y\n", "x\n  01234567\n  89abcdef\n  y\n"},
		{red + "1234567890" + end + "\n", red + "1234567890" + end + "\n"},
		{red + "12345 67890" + end, red + "12345\n  67890" + end},
		{"        deep words", "     deep\n       wor\n       ds"},
	} {
		if diff := cmp.Diff(tc.want, Look{Width: 10}.Fit(tc.text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.text, diff)
		}
	}
	long := strings.Repeat("x", 300)
	if (Look{}).Fit(long) != long || (Look{Width: 10, Wide: true}).Fit(long) != long {
		t.Error("no width was asked for")
	}
}
