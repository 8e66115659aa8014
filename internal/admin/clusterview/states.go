package clusterview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

const (
	statesPath = group + "nodestates"
	// watchTime is how long the API server keeps a watch open; the next one goes on where it ended.
	watchTime = 5 * time.Minute
	// shortestWait and longestWait bound the time between two tries.
	shortestWait, longestWait = time.Second, 30 * time.Second
)

// StateWatch reports the NodeStates of a cluster and their changes: it lists them once, page by page, and then watches.
// Its fields are set before Run.
type StateWatch struct {
	Cluster *Cluster
	// Changed is called with each NodeState that is new or different, and with nil for one that is gone.
	// The NodeState has no managed fields.
	Changed func(name string, state *v1alpha1.NodeState)
	// Read is called with nil when all NodeStates have been read or the watch goes on, and with the error
	// when that did not succeed. Run tries again.
	Read func(error)

	version string          // from which the watch goes on; empty: list first
	names   map[string]bool // of the NodeStates that there are
}

// Run follows the NodeStates until ctx ends. Another Run goes on where this one ended.
func (w *StateWatch) Run(ctx context.Context) error {
	wait := shortestWait
	for {
		began := time.Now()
		err := w.followStates(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			w.Read(w.Cluster.explainError("nodestates.culvert.dev", err))
		}
		if time.Since(began) > longestWait {
			wait = shortestWait
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait/2 + rand.N(wait/2)): //nolint:gosec // it spreads requests
		}
		wait = min(2*wait, longestWait)
	}
}

// followStates lists unless a version is known, and watches until the watch ends. Then it is called again.
func (w *StateWatch) followStates(ctx context.Context) error {
	for {
		if w.version == "" {
			if err := w.listStates(ctx); err != nil {
				return err
			}
		}
		began := time.Now()
		err := w.watchStates(ctx)
		if isExpired(err) {
			w.version, err = "", nil
		}
		if err != nil || time.Since(began) < shortestWait {
			return err
		}
	}
}

// isExpired reports whether the API server no longer has the versions that a watch or a list asked for.
func isExpired(err error) bool { return apierrors.IsGone(err) || apierrors.IsResourceExpired(err) }

func (w *StateWatch) listStates(ctx context.Context) error {
	names := map[string]bool{}
	version, err := eachWithVersion(ctx, w.Cluster, statesPath, nil, func(s v1alpha1.NodeState) {
		names[s.Name] = true
		w.Changed(s.Name, dropManaged(&s))
	})
	if err != nil {
		return err
	}
	for name := range w.names {
		if !names[name] {
			w.Changed(name, nil)
		}
	}
	w.version, w.names = version, names
	w.Read(nil)
	return nil
}

// watchStates passes on the events of one watch. It returns nil when the API server ends the watch.
func (w *StateWatch) watchStates(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, watchTime+longestWait) // of a connection that hangs
	defer cancel()
	stream, err := w.Cluster.rest.Get().AbsPath(statesPath).Param("watch", "true").Param("allowWatchBookmarks", "true").
		Param("resourceVersion", w.version).Param("timeoutSeconds", fmt.Sprint(int(watchTime.Seconds()))).Stream(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	w.Read(nil)
	for events := json.NewDecoder(stream); ; {
		var e struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := events.Decode(&e); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		if err := w.applyEvent(e.Type, e.Object); err != nil {
			return err
		}
	}
}

// applyEvent applies an event of a watch (meta/v1 WatchEvent).
func (w *StateWatch) applyEvent(kind string, object json.RawMessage) error {
	if kind == "ERROR" {
		var status metav1.Status
		if err := json.Unmarshal(object, &status); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		return apierrors.FromObject(&status)
	}
	var s v1alpha1.NodeState
	if err := json.Unmarshal(object, &s); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	w.version = s.ResourceVersion
	switch kind {
	case "ADDED", "MODIFIED":
		w.names[s.Name] = true
		w.Changed(s.Name, dropManaged(&s))
	case "DELETED":
		delete(w.names, s.Name)
		w.Changed(s.Name, nil)
	}
	return nil // BOOKMARK has the version alone
}

// ReportTime returns when a NodeState was last written.
func ReportTime(s *v1alpha1.NodeState) time.Time {
	at := s.CreationTimestamp.Time
	for _, m := range s.ManagedFields {
		if m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}

// dropManaged drops the managed fields, which are larger than the rest, but the time of the last write.
func dropManaged(s *v1alpha1.NodeState) *v1alpha1.NodeState {
	at := metav1.NewTime(ReportTime(s))
	s.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &at}}
	return s
}
