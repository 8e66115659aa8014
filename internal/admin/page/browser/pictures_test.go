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

// TestPictures checks the pictures of docs/ui.md. With -update it draws them first.
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
		file := filepath.Join("../../../../docs/images", p.name)
		if *update {
			b := openTab(t, p.source, p.width, p.height, prefer(p.scheme))
			if err := os.WriteFile(file, shrink(t, b.photograph(p.place, p.width < 500)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if info, err := os.Stat(file); err != nil || info.Size() > largestPicture {
			t.Errorf("%s: want at most %d bytes: %v, %v", p.name, largestPicture, info, err)
		}
	}
}

// photograph takes a picture of a place after some seconds, when the line of the last rates has points. On
// a phone it shows the first NIC.
func (b *tab) photograph(place string, isPhone bool) (picture []byte) {
	b.t.Helper()
	b.run(chromedp.Evaluate("location.hash = "+quote(place), nil))
	b.waitFor(`document.querySelector(".events") !== null`)
	b.run(chromedp.Sleep(12 * time.Second))
	if isPhone {
		b.run(chromedp.Evaluate(`document.querySelector(".nic").scrollIntoView(); scrollBy(0, -100)`, nil), chromedp.Sleep(time.Second))
	}
	b.run(chromedp.Evaluate(`document.querySelector(".slot[aria-current]")?.scrollIntoView({block: "center"})`, nil), chromedp.Sleep(time.Second))
	b.run(chromedp.CaptureScreenshot(&picture))
	return picture
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
