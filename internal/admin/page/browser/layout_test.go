package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// beyond returns the elements that reach over the right edge, but for those in a part that scrolls.
const beyond = `(() => {
  const scrolls = e => e && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement))
  const out = [...document.body.querySelectorAll("*")].filter(e => e.getClientRects().length && e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e.parentElement))
  return [document.documentElement.scrollWidth > innerWidth ? "the page is " + document.documentElement.scrollWidth + " wide" : "", ...out.map(e => e.tagName + "." + e.className + " " + e.textContent.slice(0, 40))].filter(Boolean)
})()`

// faint returns the texts whose contrast is below that of WCAG 2.2 AA (1.4.3): 4.5, and 3 for large ones.
const faint = `(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true})
  const parse = color => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data] }
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0)
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c } return [255, 255, 255] }
  const out = new Map()
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement, style = getComputedStyle(e)
    if (!walk.currentNode.data.trim() || !e.getClientRects().length || e.closest(".hidden, .skip")) continue
    const [a, b] = [light(parse(style.color)), light(behind(e))]
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    const size = parseFloat(style.fontSize), isLarge = size >= 24 || size >= 18.66 && style.fontWeight >= 700
    if (ratio < (isLarge ? 3 : 4.5)) out.set(e.className + " " + e.tagName, ratio.toFixed(2) + " " + walk.currentNode.data.slice(0, 30))
  }
  return [...out].map(pair => pair.join(": "))
})()`

// TestFitsAndReads lays every place out at several widths, in light and dark.
func TestFitsAndReads(t *testing.T) {
	long := "namespace-of-a-tenant/a-pod-with-a-very-long-name-that-nothing-in-the-page-can-hold-7d9f8b6c5d-abcde"
	for _, isCluster := range []bool{false, true} {
		source, places := makeHost(), []string{"#", "#view=loudest", "#view=plan", "#view=find&q=enp", "#vf=enp59s0f0%233", "#vf=enp59s0f1%235"}
		if isCluster {
			source, places = makeCluster(50), []string{"#", "#node=node-0007", "#node=node-0007&vf=enp59s0f1%2331", "#view=find&q=upf"}
			source.overview.Nodes[1].Name = "a-node-whose-name-is-as-long-as-a-name-can-be.in-a-domain.example.com"
		} else {
			source.nodes["worker-07"].VFs[1].Owner.Name = long
			source.overview.Networks[0].Name, source.overview.Pools[0].Name, source.events[0].Text = long, long, long+long
		}
		for _, scheme := range []string{"light", "dark"} {
			b := openTab(t, source, 320, 640, prefer(scheme))
			widths := []int64{800, 1280, 320}
			if scheme == "dark" { // a colour changes no width
				widths = nil
			}
			for _, place := range places {
				b.run(chromedp.Evaluate("location.hash = "+quote(place), nil), chromedp.Evaluate(`new Promise(done => setTimeout(done, 100))`, nil, awaitPromise))
				for _, width := range widths {
					b.run(chromedp.EmulateViewport(width, 640))
					if out := ask[[]string](b, beyond); len(out) > 0 {
						t.Errorf("%s at %d: over the edge: %.600q", place, width, out)
					}
				}
				if out := ask[[]string](b, faint); len(out) > 0 {
					t.Errorf("%s, %s: too little contrast: %q", place, scheme, out)
				}
			}
		}
	}
}

// TestSwitchesTheTheme presses the button for the theme, and loads the page anew.
func TestSwitchesTheTheme(t *testing.T) {
	b := openTab(t, makeHost(), 1280, 900, prefer("light"))
	ground := `getComputedStyle(document.body).backgroundColor`
	lightGround := ask[string](b, ground)
	b.click("#theme")
	b.waitFor(fmt.Sprintf(`%s !== %q && document.querySelector("#theme").getAttribute("aria-label") === "Theme: dark"`, ground, lightGround))
	b.run(chromedp.Reload())
	b.waitFor(fmt.Sprintf(`%s !== %q`, ground, lightGround))
}
