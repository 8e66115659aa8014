package controller

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// objects are those of an API server by kind and name, such as pool/n. They are never
// changed in place.
type objects map[string]client.Object

// pastServer is an API server in memory. It keeps every version of its objects, so that
// caches can be behind.
type pastServer struct {
	versions []objects
	revision int
}

func (s *pastServer) last() objects { return s.versions[len(s.versions)-1] }

// put writes an object, or removes it where o is nil.
func (s *pastServer) put(key string, o client.Object) {
	next := maps.Clone(s.last())
	if o == nil {
		delete(next, key)
	} else {
		o = o.DeepCopyObject().(client.Object)
		s.revision++
		o.SetResourceVersion(strconv.Itoa(s.revision))
		if p, ok := o.(*v1alpha1.AddressPool); ok {
			o.SetGeneration(1)
			if old, ok := next[key].(*v1alpha1.AddressPool); ok {
				o.SetGeneration(old.Generation)
				if !reflect.DeepEqual(old.Spec, p.Spec) {
					o.SetGeneration(old.Generation + 1)
				}
			}
		}
		next[key] = o
	}
	s.versions = append(s.versions, next)
}

// setNode makes the Node object of a name, or deletes it where uid is empty.
func (s *pastServer) setNode(name, uid string) {
	if uid == "" {
		s.put("node/"+name, nil)
		return
	}
	n := node()
	n.Name, n.UID = name, types.UID(uid)
	s.put("node/"+name, n)
}

func (s *pastServer) uidOf(name string) string {
	if n := s.last()["node/"+name]; n != nil {
		return string(n.GetUID())
	}
	return ""
}

// apiClient is a controller's client: it reads from a cache that is behind, each kind on its own,
// or from the server itself.
type apiClient struct {
	client.Client // nil: nothing else is called
	t             *rapid.T
	server        *pastServer
	live          bool
	seen          map[string]int // by kind
	// beforeWrite is called between the last read and a write.
	beforeWrite func()
}

func (c *apiClient) kind(kind string) objects {
	last := len(c.server.versions) - 1
	if c.live {
		return c.server.versions[last]
	}
	c.seen[kind] = rapid.IntRange(c.seen[kind], last).Draw(c.t, kind+" as of")
	return c.server.versions[c.seen[kind]]
}

func keyOf(o client.Object, name string) (kind, key string) {
	switch o.(type) {
	case *v1alpha1.AddressPool:
		kind = "pool"
	case *v1alpha1.NodeState:
		kind = "state"
	case *metav1.PartialObjectMetadata:
		kind = "node"
	default:
		panic(fmt.Sprintf("%T is read", o))
	}
	return kind, kind + "/" + name
}

func (c *apiClient) Get(_ context.Context, name client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	kind, key := keyOf(o, name.Name)
	found, ok := c.kind(kind)[key]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name.Name)
	}
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(found.DeepCopyObject()).Elem())
	return nil
}

func (c *apiClient) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch l := list.(type) {
	case *v1alpha1.NodeStateList:
		for key, o := range c.kind("state") {
			if strings.HasPrefix(key, "state/") {
				l.Items = append(l.Items, *o.DeepCopyObject().(*v1alpha1.NodeState))
			}
		}
	case *v1alpha1.AddressPoolList:
		for key, o := range c.kind("pool") {
			if strings.HasPrefix(key, "pool/") {
				l.Items = append(l.Items, *o.DeepCopyObject().(*v1alpha1.AddressPool))
			}
		}
	case *unstructured.UnstructuredList:
		l.Items = append(l.Items, *whereaboutsDefinition())
	case *metav1.PartialObjectMetadataList:
		if l.Kind == "PodList" {
			l.Items = append(l.Items, podsIn(c.kind("pod"))...)
			return nil
		}
		for key, o := range c.kind("node") {
			if strings.HasPrefix(key, "node/") {
				l.Items = append(l.Items, *o.DeepCopyObject().(*metav1.PartialObjectMetadata))
			}
		}
	default:
		panic(fmt.Sprintf("%T is listed", list))
	}
	return nil
}

// write puts an object on the version that the writer has, which is empty for a new one.
func (c *apiClient) write(o client.Object, version string) error {
	c.beforeWrite()
	kind, key := keyOf(o, o.GetName())
	there := c.server.last()[key]
	switch {
	case there == nil && version != "", there != nil && version != "" && there.GetResourceVersion() != version:
		return apierrors.NewConflict(schema.GroupResource{Resource: kind}, o.GetName(), fmt.Errorf("it is another version"))
	case there != nil && version == "":
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: kind}, o.GetName())
	}
	c.server.put(key, o)
	written := c.server.last()[key]
	o.SetResourceVersion(written.GetResourceVersion())
	o.SetGeneration(written.GetGeneration())
	return nil
}

func (c *apiClient) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	return c.write(o, "")
}

func (c *apiClient) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	return c.write(o, o.GetResourceVersion())
}

func (c *apiClient) Delete(_ context.Context, o client.Object, options ...client.DeleteOption) error {
	c.beforeWrite()
	all := &client.DeleteOptions{}
	all.ApplyOptions(options)
	kind, key := keyOf(o, o.GetName())
	there := c.server.last()[key]
	if there == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, o.GetName())
	}
	if p := all.Preconditions; p == nil || p.ResourceVersion == nil || *p.ResourceVersion != there.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{Resource: kind}, o.GetName(), fmt.Errorf("it is another version"))
	}
	c.server.put(key, nil)
	return nil
}
