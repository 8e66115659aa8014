package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/excerpt"
)

// Waits between two tries of what could not be written, and how many writes run
// side by side. What is still not written after lastTry tries is let go.
const (
	firstWait, lastWait = 200 * time.Millisecond, time.Minute
	lastTry             = 200
	writers             = 4
)

// waiting is something to be written: the latest of its kind for one object.
type waiting struct {
	what  string // for messages
	write func(context.Context) error
}

// writer writes behind the answers. Nobody waits for it.
type writer struct {
	c     *Client
	queue workqueue.TypedRateLimitingInterface[string]
	said  *said

	mu   sync.Mutex // guards todo
	todo map[string]waiting
}

func newWriter(c *Client) *writer {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstWait, lastWait)
	return &writer{c: c, queue: workqueue.NewTypedRateLimitingQueue(limiter), said: newSaid(), todo: map[string]waiting{}}
}

// put queues a write in place of an earlier one of that key.
func (w *writer) put(key string, what waiting) {
	w.mu.Lock()
	w.todo[key] = what
	w.mu.Unlock()
	w.queue.Add(key)
}

func (w *writer) take(key string) (waiting, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what, ok := w.todo[key]
	delete(w.todo, key)
	return what, ok
}

// back queues what could not be written again, unless there is something newer.
func (w *writer) back(key string, what waiting) {
	w.mu.Lock()
	if _, newer := w.todo[key]; !newer {
		w.todo[key] = what
	}
	w.mu.Unlock()
	w.queue.AddRateLimited(key)
}

func (w *writer) run(ctx context.Context) {
	var g errgroup.Group
	for range writers {
		g.Go(func() error {
			for w.one(ctx) {
			}
			return nil
		})
	}
	<-ctx.Done()
	w.queue.ShutDown()
	_ = g.Wait() // they return nil
}

// one writes one thing, and is false when there will be no more.
func (w *writer) one(ctx context.Context) bool {
	key, over := w.queue.Get()
	if over {
		return false
	}
	defer w.queue.Done(key)
	what, ok := w.take(key)
	if !ok {
		return true
	}
	bounded, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	err := what.write(bounded)
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// Gone, or another one of that name: nobody is left to be told.
	case final(err) || w.queue.NumRequeues(key) >= lastTry:
		w.c.log.Error("write to the cluster", "what", what.what, "err", err)
	default:
		w.c.log.Debug("write to the cluster, tried again", "what", what.what, "err", err)
		w.back(key, what)
		return true
	}
	w.queue.Forget(key)
	return true
}

// final: the API server will say the same the next time.
func final(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsMethodNotSupported(err)
}

// Annotate sets an annotation of a pod, if it is still that pod. It returns at
// once; the annotation is written when the API server takes it.
func (c *Client) Annotate(p api.Pod, key, value string) {
	body, _ := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID, "annotations": map[string]string{key: value}}}) // texts only
	c.writer.put("annotation "+key+" "+p.UID, waiting{
		what: fmt.Sprintf("annotation %s of pod %s", key, p),
		write: func(ctx context.Context) error {
			return c.core.Patch(types.MergePatchType).Namespace(p.Namespace).Resource("pods").Name(p.Name).SubResource("status").Body(body).Do(ctx).Error()
		},
	})
}

// Event tells the object's readers something; kind is Normal or Warning, reason one
// CamelCase word. The same thing said again within a minute is left out.
func (c *Client) Event(about api.ObjectRef, kind, reason, text string) {
	now := time.Now().UTC()
	key := fmt.Sprintf("event %s %s %s %s", about.UID, about.Name, reason, text)
	if !c.writer.said.first(key, now) {
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
	c.writer.put(key, waiting{what: fmt.Sprintf("event %s of %s %s", reason, about.Kind, about.Name), write: func(ctx context.Context) error {
		err := c.core.Post().Namespace(namespace).Resource("events").Body(body).Do(ctx).Error()
		if apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) {
			return nil // the namespace is being deleted, or it was written and the answer was lost
		}
		return err
	}})
}

// PodEvent is an event about a pod.
func (c *Client) PodEvent(p api.Pod, kind, reason, text string) {
	c.Event(api.ObjectRef{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}, kind, reason, text)
}

// NodeEvent is an event about the node.
func (c *Client) NodeEvent(kind, reason, text string) {
	uid := c.node // as kubelets have it, until the Node object has been heard of
	for _, o := range c.owner() {
		uid = string(o.UID)
	}
	c.Event(api.ObjectRef{APIVersion: "v1", Kind: "Node", Name: c.node, UID: uid}, kind, reason, text)
}

// longestMessage is what an event may have (k8s.io/api/core/v1, NoteLengthLimit).
const longestMessage = 1024

// said remembers for a minute what was said.
type said struct {
	mu sync.Mutex // guards at
	at map[string]time.Time
}

func newSaid() *said { return &said{at: map[string]time.Time{}} }

const repeat = time.Minute

// first reports whether key was not said within the last minute.
func (s *said) first(key string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, at := range s.at {
		if now.Sub(at) >= repeat || at.After(now) {
			delete(s.at, k)
		}
	}
	if _, told := s.at[key]; told {
		return false
	}
	s.at[key] = now
	return true
}
