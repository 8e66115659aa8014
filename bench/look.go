package bench

import (
	"fmt"
	"math"
	"strings"
)

// Look says how text is drawn.
type Look struct{ Colour, Unicode bool }

// Bold paints s so, where there are colours.
func (l Look) Bold(s string) string {
	if !l.Colour {
		return s
	}
	return "\x1b[1m" + s + "\x1b[0m" // SGR sequences (ECMA-48)
}

// Bar draws a part of width, to an eighth of a column where there is Unicode.
// A part above 0 draws at least one mark.
func (l Look) Bar(part float64, width int) string {
	if math.IsNaN(part) || part <= 0 {
		return ""
	}
	eighths := max(1, int(math.Round(min(part, 1)*float64(width*8))))
	if !l.Unicode {
		return strings.Repeat("#", max(1, (eighths+4)/8))
	}
	return strings.Repeat("█", eighths/8) + []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}[eighths%8]
}

// Number prints three significant digits, and whole numbers whole.
func Number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case v == math.Trunc(v) || math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf("%.*f", min(decimals, 6), v)
}
