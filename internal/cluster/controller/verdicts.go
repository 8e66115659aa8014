package controller

import (
	"crypto/sha256"
	"maps"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A verdict of the API server counts for verdictLife. So a token that is revoked is served that much
// longer. Requests beyond reviewRate, in reviews a second, get the status 429, so that strangers who
// make up tokens do not load the API server. A client that was served is exempt for exemptLife.
const (
	verdictLife  = 30 * time.Second
	exemptLife   = 10 * time.Minute
	mostVerdicts = 1000
	reviewRate   = 5
	reviewBurst  = 20
)

// verdicts remembers what the API server said of requests for metrics.
type verdicts struct {
	now   func() time.Time
	limit *rate.Limiter

	mu    sync.Mutex // guards known
	known map[verdictKey]verdict
}

// verdictKey is the hash of a token, a method and a path.
type verdictKey [sha256.Size]byte

type verdict struct {
	code  int // of HTTP
	since time.Time
}

func newVerdicts() *verdicts {
	return &verdicts{now: time.Now, limit: rate.NewLimiter(reviewRate, reviewBurst), known: map[verdictKey]verdict{}}
}

func newVerdictKey(token string, r *http.Request) verdictKey {
	return sha256.Sum256([]byte(token + "\x00" + r.Method + "\x00" + r.URL.Path))
}

// findVerdict returns the status of a request whose verdict is known, or which is one too many. It
// returns 0 for a request that the API server is to judge.
func (v *verdicts) findVerdict(key verdictKey) int {
	now := v.now()
	v.mu.Lock()
	defer v.mu.Unlock()
	last, isKnown := v.known[key]
	switch {
	case isKnown && now.Sub(last.since) < verdictLife:
		return last.code
	case isKnown && last.code == http.StatusOK, v.limit.AllowN(now, 1):
		return 0
	}
	return http.StatusTooManyRequests
}

// keepVerdict keeps a verdict of the API server.
func (v *verdicts) keepVerdict(key verdictKey, code int) {
	now := v.now()
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.known, func(_ verdictKey, old verdict) bool {
		age, isFull := now.Sub(old.since), len(v.known) >= mostVerdicts
		return age >= exemptLife || old.code != http.StatusOK && (age >= verdictLife || isFull)
	})
	v.known[key] = verdict{code, now}
}
