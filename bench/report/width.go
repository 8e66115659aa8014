package report

import (
	"strings"

	"github.com/culvert-net/culvert/internal/screen"
)

// gap is the least distance between two texts beside each other, in units of a chart.
const gap = 10

// widthOf returns how wide a text is at most, in the units of its size: that of DejaVu Sans, which is
// wider than the other fonts that the page names.
func widthOf(s string, size float64, bold bool) float64 {
	width := 0.0
	for _, c := range s {
		switch {
		case strings.ContainsRune("ijl|'.,:;!I ", c):
			width += 0.34
		case strings.ContainsRune("frt()[]-/", c):
			width += 0.42
		case strings.ContainsRune("mwMW%@", c) || c > 0x2000:
			width++
		case c >= 'A' && c <= 'Z' || c > 0x7f:
			width += 0.79
		default:
			width += 0.64
		}
	}
	if bold {
		width *= 1.13
	}
	return width * size
}

// shortenTo shortens names so that each fits a width of a chart, and different ones stay different.
func shortenTo(names []string, width, size float64) []string {
	most := 0
	for _, n := range names {
		most = max(most, screen.Columns(n))
	}
	for ; most > 8; most-- {
		short, fits := screen.ShortenAll(names, most), true
		for _, s := range short {
			fits = fits && widthOf(s, size, false) <= width
		}
		if fits {
			return short
		}
	}
	return screen.ShortenAll(names, most)
}
