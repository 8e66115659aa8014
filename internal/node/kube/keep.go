package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/culvert-net/culvert/internal/share"
)

const definitions = "network-attachment-definitions"

// maxKept bounds the bytes of networks that a node keeps. Tenants write as many as they
// like; those beyond it are read from the API server when a pod names them.
// objectSize is the memory of an object beside its texts.
const maxKept, objectSize = 2 << 20, 1 << 10

// keeper decides which networks are kept, of one list and the watches that follow it. The namespace
// with the most gives way.
type keeper struct {
	mu     sync.Mutex // guards budget
	budget *share.Budget
}

func newKeeper() *keeper { return &keeper{budget: share.New(maxKept)} }

func entryOf(n *network) share.Entry { return share.Entry{Owner: n.Namespace, Key: n.Name} }

// keepNetwork reports whether a network is kept from now on, and which others are not kept any more.
func (k *keeper) keepNetwork(n *network) (kept bool, dropped []share.Entry) {
	size := objectSize + len(n.Namespace) + len(n.Name) + len(n.Spec.Config.text)
	for key, value := range n.Annotations {
		size += len(key) + len(value)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.budget.Put(entryOf(n), size)
}

// isKept reports whether a network is kept.
func (k *keeper) isKept(n *network) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.budget.Has(entryOf(n))
}

// forgetNetwork drops a network.
func (k *keeper) forgetNetwork(n *network) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.budget.Drop(entryOf(n))
}

// filterEvent returns the events of a watch that only sees the networks that are kept. For it, a
// network that is not kept any more is deleted.
func (k *keeper) filterEvent(e watch.Event) []watch.Event {
	n, ok := e.Object.(*network)
	if !ok || e.Type == watch.Bookmark {
		return []watch.Event{e}
	}
	lean, _ := stripObject(n) // never fails
	e.Object = lean.(*network)
	if e.Type == watch.Deleted {
		k.forgetNetwork(n)
		return []watch.Event{e} // whether it was kept or not: a deleted network must never be served
	}
	before := k.isKept(n)
	kept, dropped := k.keepNetwork(n)
	var out []watch.Event
	for _, d := range dropped {
		gone := &network{object: object{ObjectMeta: metav1.ObjectMeta{Namespace: d.Owner, Name: d.Key, ResourceVersion: n.ResourceVersion}}}
		out = append(out, watch.Event{Type: watch.Deleted, Object: gone})
	}
	switch {
	case kept && !before:
		e.Type = watch.Added
	case !kept && !before:
		return out
	case !kept:
		e.Type = watch.Deleted
	}
	return append(out, e)
}

// filterWatch passes the events of a watch through filterEvent.
func (k *keeper) filterWatch(w watch.Interface) watch.Interface {
	events := make(chan watch.Event)
	out := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		defer w.Stop()
		for {
			select {
			case e, more := <-w.ResultChan():
				if !more {
					return
				}
				for _, one := range k.filterEvent(e) {
					select {
					case events <- one:
					case <-out.StopChan():
						return
					}
				}
			case <-out.StopChan():
				return
			}
		}
	}()
	return out
}

// keptNetworks lists and watches the networks of the cluster that are kept. A late event of a watch
// before the last list does not change what is kept since.
func (c *Client) keptNetworks() cache.ListerWatcher {
	var last atomic.Pointer[keeper]
	last.Store(newKeeper())
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			k := newKeeper()
			out, err := c.listKept(ctx, k, options)
			if apierrors.IsResourceExpired(err) && options.Limit > 0 { // the pages took too long
				options.Limit, k = 0, newKeeper()
				out, err = c.listKept(ctx, k, options)
			}
			if err == nil {
				last.Store(k)
			}
			return out, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			k := last.Load()
			w, err := watchAll(ctx, c.nets, definitions, options)
			if err != nil {
				return nil, err
			}
			return k.filterWatch(w), nil
		},
	}
}

// listKept reads all pages of the list. Networks on a later page can take the room of those on an
// earlier one.
func (c *Client) listKept(ctx context.Context, k *keeper, options metav1.ListOptions) (*networkList, error) {
	out := &networkList{}
	for {
		var err error
		out.ListMeta, err = listEach(ctx, listRequest(c.nets, definitions, options), func(n *network) {
			_, _ = stripObject(n)
			kept, dropped := k.keepNetwork(n)
			if kept {
				out.Items = append(out.Items, *n)
			}
			if len(dropped) > 0 {
				out.Items = slices.DeleteFunc(out.Items, func(n network) bool { return !k.isKept(&n) })
			}
		})
		if err != nil || out.Continue == "" {
			return out, err
		}
		// The token says of which version the next page is; the API server refuses both.
		options.Continue, options.ResourceVersion, options.ResourceVersionMatch = out.Continue, "", ""
	}
}

// podsOf lists and watches the pods of a node.
func (c *Client) podsOf(node string) cache.ListerWatcher {
	here := fields.OneTermEqualSelector("spec.nodeName", node).String()
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = here
			out := &podList{}
			var err error
			out.ListMeta, err = listEach(ctx, listRequest(c.core, "pods", options), func(p *pod) {
				_, _ = stripObject(p)
				out.Items = append(out.Items, *p)
			})
			return out, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = here
			return watchAll(ctx, c.core, "pods", options)
		},
	}
}

func listRequest(from rest.Interface, resource string, options metav1.ListOptions) *rest.Request {
	return from.Get().Resource(resource).VersionedParams(&options, metav1.ParameterCodec)
}

func watchAll(ctx context.Context, from rest.Interface, resource string, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return listRequest(from, resource, options).Watch(ctx)
}

// listEach reads a list object by object, since a list of all tenants' objects may be larger than
// memory.
func listEach[T any](ctx context.Context, r *rest.Request, each func(*T)) (meta metav1.ListMeta, err error) {
	body, err := r.Stream(ctx)
	if err != nil {
		return meta, err
	}
	defer body.Close()
	d := json.NewDecoder(body)
	if err := expectToken(d, '{'); err != nil {
		return meta, err
	}
	for d.More() {
		key, err := d.Token()
		switch {
		case err != nil:
		case key == "metadata":
			err = d.Decode(&meta)
		case key == "items":
			err = decodeItems(d, each)
		default:
			err = d.Decode(&json.RawMessage{})
		}
		if err != nil {
			return meta, fmt.Errorf("read a list: %w", err)
		}
	}
	return meta, expectToken(d, '}')
}

func decodeItems[T any](d *json.Decoder, each func(*T)) error {
	switch start, err := d.Token(); {
	case err != nil:
		return err
	case start == nil: // null
		return nil
	}
	for d.More() {
		item := new(T)
		if err := d.Decode(item); err != nil {
			return err
		}
		each(item)
	}
	return expectToken(d, ']')
}

func expectToken(d *json.Decoder, want json.Delim) error {
	switch have, err := d.Token(); {
	case err != nil:
		return fmt.Errorf("read a list: %w", err)
	case have != want:
		return fmt.Errorf("read a list: it has %v where %q should be", have, want)
	}
	return nil
}
