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

// stream sends what changes, as server-sent events, until the page is closed.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		refuse(w, r, http.StatusServiceUnavailable, fmt.Sprintf("%d pages are open already: close one, and load this page anew", mostStreams))
		return
	}
	node := r.FormValue("node")
	s.feed.follow()
	defer s.feed.leave()
	defer s.feed.watch(node)()
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it was for the request, which is read
	w.Header().Set("Content-Type", "text/event-stream")
	for v := (&viewer{w: w, node: node, shown: &picture{}}); ; {
		p, next := s.feed.picture()
		if err := v.show(p); err != nil {
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

// show sends the difference between a picture and the one on the page.
func (v *viewer) show(p *picture) error {
	failed := p.failure
	if failed == "" {
		failed = p.nodes[v.node].failure
	}
	recovered := v.failure != "" && failed == ""
	if failed != "" && failed != v.failure {
		if err := v.send("failure", failure{failed}); err != nil {
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
	return v.send("alive", alive{p.overview.Time})
}

// alive is the data of the event of that name.
type alive struct {
	Time time.Time `json:"time"`
}

// showOverview sends the whole overview, or the rows and the summary that changed.
func (v *viewer) showOverview(before, p *picture, isWhole bool) error {
	rows, same := findChangedRows(before, p)
	if isWhole || before.overview == nil || !same {
		return v.send("overview", p.overview)
	}
	if len(rows) > 0 {
		if err := v.send("rows", rows); err != nil {
			return err
		}
	}
	if bytes.Equal(before.head, p.head) {
		return nil
	}
	summary := *p.overview
	summary.Nodes = nil
	return v.send("summary", summary)
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
		if err := v.send("node", n.status); err != nil {
			return err
		}
	}
	if n.flows == nil || n.from.Time.Equal(before.from.Time) {
		return nil
	}
	return v.send("rates", n.flows)
}

func (v *viewer) send(event string, value any) error {
	c := http.NewResponseController(v.w)
	if err := c.SetWriteDeadline(time.Now().Add(sendBound)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(v.w, "event: %s\ndata: %s\n", event, encode(value)); err != nil { // encode ends the line
		return err
	}
	return c.Flush()
}
