package browser

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// largestPicture is the most bytes of a picture in the documents.
const largestPicture = 150_000

// TestPictures draws the pictures of docs/ui.md. With -update it writes them.
func TestPictures(t *testing.T) {
	for _, p := range []struct {
		name          string
		source        *simulated
		scheme, place string
		width, height int64
	}{
		{"page-light.png", makeHost(), "light", "#vf=enp175s0f0%235", 1440, 960},
		{"page-dark.png", makeHost(), "dark", "#", 1440, 960},
		{"page-phone.png", makeHost(), "light", "#", 390, 844},
		{"page-cluster.png", makeCluster(1000), "light", "#", 1440, 960},
	} {
		b := openTab(t, p.source, p.width, p.height, prefer(p.scheme))
		b.run(chromedp.Evaluate("location.hash = "+quote(p.place), nil))
		b.waitFor(`document.querySelector(".events") !== null`)
		if p.source.overview.HasRates {
			b.waitFor(`document.querySelector(".rate") !== null`)
			if *update {
				b.run(chromedp.Sleep(12 * time.Second)) // the line of the last rates has points then
			}
		}
		if *update && p.name == "page-phone.png" {
			b.run(chromedp.Evaluate(`document.querySelector(".nic").scrollIntoView(); scrollBy(0, -100)`, nil), chromedp.Sleep(200*time.Millisecond))
		}
		var picture []byte
		b.run(chromedp.CaptureScreenshot(&picture))
		picture = shrink(t, picture)
		if len(picture) > largestPicture {
			t.Errorf("%s has %d bytes: at most %d", p.name, len(picture), largestPicture)
		}
		if *update {
			if err := os.WriteFile(filepath.Join("../../../../docs/images", p.name), picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// shrink writes a picture with its 256 most frequent colours.
func shrink(t *testing.T, picture []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[color.RGBA]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			counts[colorAt(full, x, y)]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int { return counts[b] - counts[a] })
	palette := color.Palette{}
	for _, c := range frequent[:min(256, len(frequent))] {
		palette = append(palette, c)
	}
	nearest := map[color.RGBA]uint8{}
	for c := range counts {
		nearest[c] = uint8(palette.Index(c))
	}
	small := image.NewPaletted(full.Bounds(), palette)
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			small.SetColorIndex(x, y, nearest[colorAt(full, x, y)])
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func colorAt(picture image.Image, x, y int) color.RGBA {
	return color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)
}
