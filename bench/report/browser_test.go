package report

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestBrowser lays the page out in Chromium, as wide as a phone and as a desk: nothing may reach
// beyond the side, also with long names, and no label of a chart is cut or covers another. The page runs no script of its own; the copy that is
// measured does, in a frame of the wanted width.
func TestBrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("Chromium is not installed: apt-get install chromium")
	}
	policy := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`)
	const measure = `<script>
const width = document.documentElement.scrollWidth, bad = []
document.querySelectorAll("details").forEach(d => d.open = true)
for (const s of document.querySelectorAll("svg")) {
  const view = s.viewBox.baseVal, seen = []
  for (const e of s.querySelectorAll("text")) {
    const b = e.getBBox(), t = {left: b.x, right: b.x + b.width, top: b.y + 0.2 * b.height, bottom: b.y + b.height}
    if (t.left < -1 || t.right > view.width + 1 || t.top < -1 || t.bottom > view.height + 1) bad.push(e.textContent)
    for (const o of seen) if (t.left < o.right && o.left < t.right && t.top < o.bottom && o.top < t.bottom) bad.push(e.textContent)
    seen.push(t)
  }
}
parent.postMessage(innerWidth + " " + width + " " + bad.length + " " + bad.join("; "), "*")
</script></body>`
	for name, text := range map[string]string{"example": drawPage(t, makeExample()), "odd": drawPage(t, odd()), "middle": drawPage(t, makeMiddle()), "crowded": drawPage(t, makeCrowded())} {
		for _, width := range []int{360, 1280} {
			dir := t.TempDir()
			write := func(name, text string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write("page.html", strings.Replace(policy.ReplaceAllString(text, ""), "</body>", measure, 1))
			write("frame.html", fmt.Sprintf(`<script>onmessage = e => document.title = e.data</script><iframe src="page.html" style="width:%dpx;height:900px;border:0"></iframe>`, width))
			cmd := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-breakpad", "--disable-crash-reporter", "--virtual-time-budget=5000",
				"--user-data-dir="+filepath.Join(dir, "profile"), "--dump-dom", "file://"+filepath.Join(dir, "frame.html"))
			if os.Getuid() == 0 {
				cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET} // Chromium sends requests to its vendor's hosts
			}
			cmd.Env = append(os.Environ(), "HOME="+dir) // Chromium keeps reports of crashes there
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("chromium: %v", err)
			}
			var inner, scroll, covered int
			title := regexp.MustCompile(`<title>([^<]*)</title>`).FindStringSubmatch(string(out))
			if title == nil {
				t.Fatalf("the page did not answer: %s", out)
			}
			if _, err := fmt.Sscanf(title[1], "%d %d %d", &inner, &scroll, &covered); err != nil {
				t.Fatal(err)
			}
			if inner != width || scroll > inner {
				t.Errorf("%s in a window of %d: it is %d wide", name, inner, scroll)
			}
			if covered > 0 {
				t.Errorf("%s in a window of %d: labels are cut or covered: %s", name, inner, title[1])
			}
		}
	}
}
