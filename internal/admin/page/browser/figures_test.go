package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// mostRows is how many rows of the list of nodes are in the document at most.
const mostRows = 60

// TestFiguresOfAThousandNodes prints how the page does with 1,000 nodes of 64 VFs. It judges only how
// much is in the document: times depend on the machine.
func TestFiguresOfAThousandNodes(t *testing.T) {
	source := makeCluster(1000)
	b := openTab(t, source, 1440, 900)
	b.waitFor(`document.querySelectorAll("#rows .node").length > 5`)
	paint := ask[float64](b, `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0`)
	ready := ask[float64](b, `performance.now()`)
	elements := `document.querySelectorAll("*").length`
	t.Logf("first paint %.0f ms, list there before %.0f ms, %d elements, %d rows, JS heap %.1f MB", paint, ready, ask[int](b, elements),
		ask[int](b, `document.querySelectorAll("#rows .node").length`), ask[float64](b, `performance.memory.usedJSHeapSize / 1e6`))

	// The time from the change in the source to the change of the row in the document.
	b.run(chromedp.Evaluate(`window.changes = []; new MutationObserver(() => {
	  const count = document.querySelector('#rows [data-key="node-0002"] .count')?.textContent
	  if (count !== window.last) { window.last = count; window.changes.push(Date.now()) }
	}).observe(document.querySelector("#rows"), {subtree: true, childList: true, characterData: true})`, nil))
	var latencies []float64
	for i := range 5 {
		var began float64
		b.run(chromedp.Evaluate(`window.changes = []; Date.now()`, &began))
		source.change(func() { source.overview.Nodes[2].VFs.Used = 40 + i })
		b.waitFor(`window.changes.length > 0`)
		latencies = append(latencies, ask[float64](b, `window.changes[0]`)-began)
	}
	t.Logf("from a change in the source to the row: %.0f ms", latencies)

	// A thousand rows go by in 60 steps.
	longest := ask[float64](b, `new Promise(done => {
	  let longest = 0, steps = 0, last = performance.now()
	  const rows = document.querySelector("#rows")
	  const step = now => {
	    if (steps > 1) longest = Math.max(longest, now - last)
	    last = now
	    rows.scrollTop = rows.scrollHeight * ++steps / 60
	    steps < 60 ? requestAnimationFrame(step) : done(longest)
	  }
	  requestAnimationFrame(step)
	})`)
	b.waitFor(`document.querySelector('#rows [data-key="node-0999"]') !== null`)
	rows := ask[int](b, `document.querySelectorAll("#rows .node").length`)
	t.Logf("longest time between two frames while the list scrolls: %.0f ms; %d elements, JS heap %.1f MB", longest, ask[int](b, elements), ask[float64](b, `performance.memory.usedJSHeapSize / 1e6`))
	if rows > mostRows {
		t.Errorf("%d rows in the document: at most %d", rows, mostRows)
	}

	b.run(chromedp.Evaluate(fmt.Sprintf("location.hash = %q", "#node=node-0500"), nil))
	b.waitFor(`document.querySelectorAll(".slot").length === 64`)
}
