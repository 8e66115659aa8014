package browser

import (
	"testing"

	"github.com/chromedp/cdproto/network"
)

// TestExplainsARefusal loses the session, as when the command was started anew: the page shows the
// server's reason, and keeps its last picture.
func TestExplainsARefusal(t *testing.T) {
	b := openTab(t, makeCluster(20), 1280, 900)
	b.allowed = []string{"ERR_", "net::", "401"}
	b.run(network.ClearBrowserCookies())
	b.stage.listener.cut(true)
	b.stage.listener.cut(false)
	b.waitFor(`document.querySelector("#failure").textContent.includes("culvert ui")`)
	b.waitFor(`document.querySelector("#state").textContent === "▲ Connection lost" && document.querySelectorAll("#rows .node").length === 20`)
}
