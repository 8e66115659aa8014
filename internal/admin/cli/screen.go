package cli

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/culvert-net/culvert/internal/screen"
)

// Screen has the abilities of the terminal or file that a command prints to.
type Screen struct {
	// Look has 100 columns where the width is not known. It has colours on a terminal,
	// unless NO_COLOR is set (no-color.org) or the terminal is dumb, and Unicode if the
	// locale is UTF-8.
	screen.Look
	Terminal bool // the output is a terminal
}

// ScreenOf returns the abilities of w; getenv reads the environment.
func ScreenOf(w io.Writer, getenv func(string) string) Screen {
	s := Screen{Look: screen.Look{Width: 100, Unicode: isUTF8(getenv)}}
	out, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(out.Fd())) {
		return s
	}
	if width, _, err := term.GetSize(int(out.Fd())); err == nil && width >= 40 {
		s.Width = width
	}
	s.Terminal = true
	s.Color = getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
	return s
}

// isUTF8 reads the locale as setlocale(3) does: the first that is set.
func isUTF8(getenv func(string) string) bool {
	for _, key := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(key); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}
