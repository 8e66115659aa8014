package vcsim

import (
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"io"
	"net/http"
	"regexp"
)

var methodForm = regexp.MustCompile(`<(?:\w+:)?Body[^>]*>\s*<(?:\w+:)?(\w+)`)

// serveCall hands a call to the simulator, unless the test loses its request or its answer. A lost call
// ends the connection, as a broken network does.
func (m *Model) serveCall(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	method := "?"
	if found := methodForm.FindSubmatch(body); found != nil {
		method = string(found[1])
	}
	m.mu.Lock()
	m.calls++
	number := m.calls
	m.methods = append(m.methods, method)
	lose := m.Before != nil && m.Before(number, method)
	if m.away > 0 && !m.options.VCenter {
		m.away--
		lose = true
	}
	if cookie, err := r.Cookie("vmware_soap_session"); err == nil {
		if m.cookies[cookie.Value] {
			r.Header.Del("Cookie")
		} else {
			m.cookies[cookie.Value] = false
		}
	}
	m.mu.Unlock()
	if lose {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := &recorder{header: http.Header{}, status: http.StatusOK}
	m.sim.Service.ServeMux.ServeHTTP(answer, r)
	if m.After != nil && m.After(number, method) {
		panic(http.ErrAbortHandler)
	}
	for k, v := range answer.header {
		w.Header()[k] = v
	}
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.Bytes()) // the client may be gone
}

// recorder keeps an answer until it is decided whether it is lost.
type recorder struct {
	bytes.Buffer
	header http.Header
	status int
}

func (r *recorder) Header() http.Header    { return r.header }
func (r *recorder) WriteHeader(status int) { r.status = status }

func hashCertificate(raw []byte) [sha256.Size]byte { return sha256.Sum256(raw) }

func encodePEM(raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}
