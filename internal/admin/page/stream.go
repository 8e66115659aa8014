package page

import (
	"bytes"
	"fmt"
	"net/http"
	"time"
)

const (
	// mostStreams is how many pages may be open at once.
	mostStreams = 16
	// sendBound is how long the browser may take for one event.
	sendBound = 10 * time.Second
)

// serveStream sends what changes, as server-sent events, until the page is closed.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		refuseRequest(w, r, http.StatusServiceUnavailable, fmt.Sprintf("%d pages are open already: close one, and load this page anew", mostStreams))
		return
	}
	node := r.FormValue("node")
	s.feed.beginUse()
	defer s.feed.endUse()
	defer s.feed.watchNode(node)()
	w.Header().Set("Content-Type", "text/event-stream")
	for v := (&viewer{w: w, node: node, shown: &picture{}}); ; {
		p, next := s.feed.latestPicture()
		if err := v.showPicture(p); err != nil {
			return
		}
		select {
		case <-next:
		case <-r.Context().Done():
			return
		}
	}
}

// viewer is one open page.
type viewer struct {
	w       http.ResponseWriter
	node    string   // that the page shows whole, or empty
	shown   *picture // on the page
	failure string   // on the page
}

// showPicture sends the difference between a picture and the one on the page.
func (v *viewer) showPicture(p *picture) error {
	failed := p.failure
	if failed == "" {
		failed = p.nodes[v.node].failure
	}
	recovered := v.failure != "" && failed == ""
	if failed != "" && failed != v.failure {
		if err := v.sendEvent("failure", failure{failed}); err != nil {
			return err
		}
	}
	v.failure = failed
	if p.failure != "" || p.overview == nil {
		return nil
	}
	before := v.shown
	v.shown = p
	if err := v.showOverview(before, p, recovered); err != nil {
		return err
	}
	if err := v.showNode(before.nodes[v.node], p.nodes[v.node]); err != nil {
		return err
	}
	return v.sendEvent("alive", alive{p.overview.Time})
}

// alive is the data of the event of that name.
type alive struct {
	Time time.Time `json:"time"`
}

// showOverview sends the whole overview, or the rows and the summary that changed.
func (v *viewer) showOverview(before, p *picture, isWhole bool) error {
	rows, same := findChangedRows(before, p)
	if isWhole || before.overview == nil || !same {
		return v.sendEvent("overview", p.overview)
	}
	if len(rows) > 0 {
		if err := v.sendEvent("rows", rows); err != nil {
			return err
		}
	}
	if bytes.Equal(before.head, p.head) {
		return nil
	}
	summary := *p.overview
	summary.Nodes = nil
	return v.sendEvent("summary", summary)
}

// findChangedRows returns the rows that differ. same is false if nodes came or went.
func findChangedRows(before, p *picture) (rows []NodeRow, same bool) {
	for _, row := range p.overview.Nodes {
		old, known := before.rows[row.Name]
		if !known {
			return nil, false
		}
		if !bytes.Equal(old, p.rows[row.Name]) {
			rows = append(rows, row)
		}
	}
	return rows, len(before.rows) == len(p.rows)
}

// showNode sends the node if it changed, and its rates if there are new ones.
func (v *viewer) showNode(before, n nodePicture) error {
	if !bytes.Equal(before.text, n.text) {
		if err := v.sendEvent("node", n.status); err != nil {
			return err
		}
	}
	if n.flows == nil || n.from.Time.Equal(before.from.Time) {
		return nil
	}
	return v.sendEvent("rates", n.flows)
}

func (v *viewer) sendEvent(event string, value any) error {
	c := http.NewResponseController(v.w)
	if err := c.SetWriteDeadline(time.Now().Add(sendBound)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(v.w, "event: %s\ndata: %s\n", event, encodeLine(value)); err != nil { // encodeLine ends the line
		return err
	}
	return c.Flush()
}
