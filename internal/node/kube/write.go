package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// Waits between two tries of a write that failed, and how many writes run side by side. A write
// is dropped after lastTry tries, or when more than lastConflict tries ended with a conflict. While
// mostEvents events wait, further ones are dropped: the API server may be away for days. The other
// writes are bounded by the pods of the node.
const (
	firstWait, lastWait = 200 * time.Millisecond, time.Minute
	lastTry             = 200
	lastConflict        = 4
	writers             = 4
	mostEvents          = 1000
)

// waiting is a write that waits: the latest of its kind for one object.
type waiting struct {
	what      string // for messages
	write     func(context.Context) error
	conflicts int  // how many tries ended with one
	isEvent   bool // which may be dropped
}

// writer makes the queued writes in the background. No caller waits for them.
type writer struct {
	c     *Client
	queue workqueue.TypedRateLimitingInterface[string]
	said  *said

	mu      sync.Mutex // guards the rest
	todo    map[string]waiting
	events  int // that are in todo
	dropped int // since an event found room
}

func newWriter(c *Client) *writer {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstWait, lastWait)
	return &writer{c: c, queue: workqueue.NewTypedRateLimitingQueue(limiter), said: newSaid(), todo: map[string]waiting{}}
}

// putWrite queues a write in place of an earlier one of that key. It drops an event for which there is
// no room.
func (w *writer) putWrite(key string, what waiting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, replaces := w.todo[key]
	if what.isEvent && !replaces {
		if w.events >= mostEvents {
			if w.dropped++; w.dropped == 1 {
				w.c.log.Warn("events are dropped", "waiting", w.events, "why", "the API server takes none")
			}
			return
		}
		if w.dropped > 0 {
			w.c.log.Warn("events were dropped", "count", w.dropped)
		}
		w.dropped = 0
		w.events++
	}
	w.todo[key] = what
	w.queue.Add(key)
}

func (w *writer) takeWrite(key string) (waiting, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what, ok := w.todo[key]
	delete(w.todo, key)
	if what.isEvent {
		w.events--
	}
	return what, ok
}

// putBack queues a failed write again, unless a newer write of its key is queued.
func (w *writer) putBack(key string, what waiting) {
	w.mu.Lock()
	if _, newer := w.todo[key]; !newer {
		w.todo[key] = what
		if what.isEvent {
			w.events++
		}
	}
	w.mu.Unlock()
	w.queue.AddRateLimited(key)
}

func (w *writer) runWriters(ctx context.Context) {
	var g errgroup.Group
	for range writers {
		g.Go(func() error {
			for w.writeOne(ctx) {
			}
			return nil
		})
	}
	<-ctx.Done()
	w.queue.ShutDown()
	_ = g.Wait() // they return nil
}

// writeOne makes one write. It returns false when the queue is shut down.
func (w *writer) writeOne(ctx context.Context) bool {
	key, over := w.queue.Get()
	if over {
		return false
	}
	defer w.queue.Done(key)
	what, ok := w.takeWrite(key)
	if !ok {
		return true
	}
	bounded, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	err := what.write(bounded)
	if apierrors.IsConflict(err) {
		what.conflicts++
	}
	switch {
	case err == nil, apierrors.IsNotFound(err):
		// The object is gone: the write has no receiver.
	case what.conflicts > lastConflict:
		// Another object has its name. The API server also answers with a conflict if other writers
		// of the object were faster several times, so it was tried again.
		w.c.log.Debug("write to the cluster, given up", "what", what.what, "err", err)
	case isFinal(err) || w.queue.NumRequeues(key) >= lastTry:
		w.c.log.Error("write to the cluster", "what", what.what, "err", err)
	default:
		w.c.log.Debug("write to the cluster, tried again", "what", what.what, "err", err)
		w.putBack(key, what)
		return true
	}
	w.queue.Forget(key)
	return true
}

// isFinal reports whether the API server would repeat its error the next time.
func isFinal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsMethodNotSupported(err)
}

// Annotate sets annotations of a pod, if it is still that pod, in one request. It returns at
// once; the annotations are written when the API server takes them. Later annotations of the
// pod replace those that wait.
func (c *Client) Annotate(p api.Pod, values map[string]string) {
	if _, is := values[netannotation.Confirmed]; is {
		c.confirmed.Store(time.Now().UnixNano())
	}
	body, _ := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID, "annotations": values}}) // texts only
	c.writer.putWrite("annotations "+p.UID, waiting{
		what: fmt.Sprintf("annotations of pod %s", p),
		write: func(ctx context.Context) error {
			return c.core.Patch(types.MergePatchType).Namespace(p.Namespace).Resource("pods").Name(p.Name).SubResource("status").Body(body).Do(ctx).Error()
		},
	})
}

// LastConfirmation returns when a Confirmation was last given to Annotate; the zero time stands
// for never.
func (c *Client) LastConfirmation() time.Time {
	if at := c.confirmed.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Event writes an event about an object; kind is Normal or Warning, reason one CamelCase word.
// The same event within a minute is left out.
func (c *Client) Event(about api.ObjectRef, kind, reason, text string) {
	now := time.Now().UTC()
	key := fmt.Sprintf("event %s %s %s %s", about.UID, about.Name, reason, text)
	if !c.writer.said.isFirst(key, now) {
		return
	}
	stamp := now.Format(time.RFC3339)
	namespace := about.Namespace
	if namespace == "" {
		namespace = "default" // where events of cluster-scoped objects are
	}
	body, _ := json.Marshal(map[string]any{ // texts only
		"apiVersion": "v1", "kind": "Event",
		"metadata": map[string]any{"namespace": namespace, "name": fmt.Sprintf("%.200s.%x", about.Name, now.UnixNano())},
		"involvedObject": map[string]any{
			"apiVersion": about.APIVersion, "kind": about.Kind, "namespace": about.Namespace, "name": about.Name, "uid": about.UID,
		},
		"type": kind, "reason": reason, "message": excerpt.Fit(text, longestMessage),
		"source":         map[string]any{"component": "culvertd", "host": c.node},
		"firstTimestamp": stamp, "lastTimestamp": stamp, "count": 1,
	})
	c.writer.putWrite(key, waiting{isEvent: true, what: fmt.Sprintf("event %s of %s %s", reason, about.Kind, about.Name), write: func(ctx context.Context) error {
		err := c.core.Post().Namespace(namespace).Resource("events").Body(body).Do(ctx).Error()
		if apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) {
			return nil // the namespace is being deleted, or it was written and the answer was lost
		}
		return err
	}})
}

// PodEvent writes an event about a pod.
func (c *Client) PodEvent(p api.Pod, kind, reason, text string) {
	c.Event(api.ObjectRef{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}, kind, reason, text)
}

// NodeEvent writes an event about the node.
func (c *Client) NodeEvent(kind, reason, text string) {
	uid := c.node // as kubelets have it, until the Node object has been heard of
	for _, o := range c.nodeOwner() {
		uid = string(o.UID)
	}
	c.Event(api.ObjectRef{APIVersion: "v1", Kind: "Node", Name: c.node, UID: uid}, kind, reason, text)
}

// longestMessage is the length that the message of an event may have (k8s.io/api/core/v1,
// NoteLengthLimit).
const longestMessage = 1024

// said remembers the events of the last minute, up to mostSaid.
type said struct {
	mu     sync.Mutex // guards the rest
	at     map[string]time.Time
	pruned time.Time
}

func newSaid() *said { return &said{at: map[string]time.Time{}} }

const (
	repeat   = time.Minute
	mostSaid = 4 * mostEvents
)

// isFirst reports whether the event of key was not written within the last minute. It is false for a
// new event while mostSaid others are remembered.
func (s *said) isFirst(key string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	isOld := func(at time.Time) bool { return now.Sub(at) >= repeat || at.After(now) }
	if isOld(s.pruned) || len(s.at) >= mostSaid && now.Sub(s.pruned) >= time.Second {
		maps.DeleteFunc(s.at, func(_ string, at time.Time) bool { return isOld(at) })
		s.pruned = now
	}
	if at, known := s.at[key]; known && !isOld(at) || !known && len(s.at) >= mostSaid {
		return false
	}
	s.at[key] = now
	return true
}
