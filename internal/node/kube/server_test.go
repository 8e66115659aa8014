package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// kinds are those that the server has, by resource.
var kinds = map[string]struct{ version, kind string }{
	"pods":                           {"v1", "Pod"},
	"configmaps":                     {"v1", "ConfigMap"},
	"nodes":                          {"v1", "Node"},
	"network-attachment-definitions": {"k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition"},
	"nodepolicies":                   {"culvert.dev/v1alpha1", "NodePolicy"},
	"addresspools":                   {"culvert.dev/v1alpha1", "AddressPool"},
	"daemonsets":                     {"apps/v1", "DaemonSet"},
	"services":                       {"v1", "Service"},
	"endpointslices":                 {"discovery.k8s.io/v1", "EndpointSlice"},
	"resourceclaims":                 {"resource.k8s.io/v1", "ResourceClaim"},
	"nodestates":                     {"culvert.dev/v1alpha1", "NodeState"},
}

const missing = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`

// missingObject is the body of a 404 about an object.
func missingObject(resource, name string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","details":{"name":%q,"kind":%q},"code":404}`, name, resource)
}

// server is as much of an API server as the client talks to.
type server struct {
	mu        sync.Mutex                           // guards the rest
	objects   map[string]map[string]map[string]any // by resource, and by namespace/name
	absent    []string                             // resources that are not installed
	down      bool
	refused   int            // the HTTP status that every request gets; watches that are there go on
	page      int            // the objects of a page of a list; 0 for all
	expired   bool           // the server has no page but the first any more
	refuse    int            // so many writes fail
	conflicts int            // so many writes fail with a conflict
	watched   map[string]int // watches that were begun, by resource
	requests  []string
	written   []string
	history   []apiEvent // all there was; its length is the resourceVersion
	more      chan struct{}
}

// apiEvent is an event of a watch.
type apiEvent struct {
	resource string
	line     []byte
}

func newAPI(t *testing.T) (*server, *rest.Config) {
	t.Helper()
	s := &server{objects: map[string]map[string]map[string]any{}, watched: map[string]int{}, more: make(chan struct{})}
	for resource := range kinds {
		s.objects[resource] = map[string]map[string]any{}
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, &rest.Config{Host: h.URL}
}

// add stores an object with the given metadata and those that every object has, and sends an event
// to the watches.
func (s *server) add(resource, namespace, name string, metadata, fields map[string]any) {
	o := map[string]any{"apiVersion": kinds[resource].version, "kind": kinds[resource].kind}
	for key, value := range fields {
		o[key] = value
	}
	m := map[string]any{"namespace": namespace, "name": name, "managedFields": []any{map[string]any{"manager": strings.Repeat("x", 1000)}}}
	for key, value := range metadata {
		m[key] = value
	}
	o["metadata"] = m
	s.mu.Lock()
	defer s.mu.Unlock()
	m["resourceVersion"] = strconv.Itoa(len(s.history) + 1)
	_, there := s.objects[resource][namespace+"/"+name]
	s.objects[resource][namespace+"/"+name] = o
	s.tell(resource, map[bool]string{true: "MODIFIED", false: "ADDED"}[there], o)
}

func (s *server) remove(resource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[resource][namespace+"/"+name]
	delete(s.objects[resource], namespace+"/"+name)
	s.tell(resource, "DELETED", o)
}

func (s *server) addPod(namespace, name, uid string, annotations map[string]any) {
	s.add("pods", namespace, name, map[string]any{"uid": uid, "annotations": annotations},
		map[string]any{"spec": map[string]any{"nodeName": "n1", "containers": []any{map[string]any{"name": "c"}}}})
}

func (s *server) addNet(namespace, name, config string) {
	s.add("network-attachment-definitions", namespace, name, map[string]any{"annotations": map[string]any{"k8s.v1.cni.cncf.io/resourceName": "a/b", "culvert.dev/namespaces": "team"}},
		map[string]any{"spec": map[string]any{"config": config}})
}

func (s *server) tell(resource, what string, object any) {
	line, _ := json.Marshal(map[string]any{"type": what, "object": object})
	s.history = append(s.history, apiEvent{resource, append(line, '\n')})
	close(s.more)
	s.more = make(chan struct{})
}

func (s *server) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *server) log(prefix string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasPrefix(r, prefix) {
			out = append(out, r)
		}
	}
	return out
}

func (s *server) writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.written)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	down, absent, refused := s.down, slices.Clone(s.absent), s.refused
	s.mu.Unlock()
	if refused != 0 {
		http.Error(w, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d}`, refused), refused)
		return
	}
	if down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource, namespace, name := where(path)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case slices.Contains(absent, resource):
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, missing)
	case r.Method != http.MethodGet:
		s.write(w, r, resource)
	case r.URL.Query().Get("watch") != "":
		s.watch(w, r, resource)
	case name == "":
		s.note("LIST " + strings.TrimPrefix(namespace+"/"+resource, "/") + " " + r.URL.Query().Get("fieldSelector"))
		s.list(w, resource, namespace, r.URL.Query())
	default:
		s.note("GET " + namespace + "/" + name)
		s.mu.Lock()
		o, ok := s.objects[resource][namespace+"/"+name]
		s.mu.Unlock()
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, missingObject(resource, name))
			return
		}
		_ = json.NewEncoder(w).Encode(o)
	}
}

// where takes a path apart: /api/v1/... or /apis/GROUP/VERSION/..., then
// namespaces/NAMESPACE or not, the resource, an object's name or none.
func where(path []string) (resource, namespace, name string) {
	rest := path[2:]
	if path[0] == "apis" {
		rest = path[3:]
	}
	if rest[0] == "namespaces" && len(rest) > 2 {
		namespace, rest = rest[1], rest[2:]
	}
	if len(rest) > 1 {
		name = rest[1]
	}
	return rest[0], namespace, name
}

func (s *server) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, what)
}

func (s *server) list(w http.ResponseWriter, resource, namespace string, query url.Values) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items, selector := []any{}, query.Get("fieldSelector")
	for _, key := range slices.Sorted(maps.Keys(s.objects[resource])) {
		if at, name, _ := strings.Cut(key, "/"); (namespace == "" || at == namespace) && (!strings.HasPrefix(selector, "metadata.name=") || selector == "metadata.name="+name) {
			items = append(items, s.objects[resource][key])
		}
	}
	metadata := map[string]any{"resourceVersion": strconv.Itoa(len(s.history))}
	from, _ := strconv.Atoi(query.Get("continue"))
	if from > 0 && s.expired {
		w.WriteHeader(http.StatusGone)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)
		return
	}
	items = items[min(from, len(items)):]
	if s.page > 0 && len(items) > s.page && query.Get("limit") != "" {
		items = items[:s.page]
		metadata["continue"] = strconv.Itoa(from + s.page)
	}
	k := kinds[resource]
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": k.version, "kind": k.kind + "List", "items": items, "metadata": metadata})
}

func (s *server) watch(w http.ResponseWriter, r *http.Request, resource string) {
	seen, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	w.(http.Flusher).Flush()
	s.mu.Lock()
	s.watched[resource]++
	s.mu.Unlock()
	for {
		s.mu.Lock()
		news, more := s.history[seen:], s.more
		s.mu.Unlock()
		for _, c := range news {
			if seen++; c.resource == resource {
				_, _ = w.Write(c.line)
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-more:
		}
	}
}

// write stores NodeStates, and records all writes. As the API server does, it gives each version of
// a NodeState a number, and refuses a write over another version than the last.
func (s *server) write(w http.ResponseWriter, r *http.Request, resource string) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse > 0 {
		s.refuse--
		http.Error(w, "overloaded", http.StatusInternalServerError)
		return
	}
	if s.conflicts > 0 {
		s.conflicts--
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":%d}`, http.StatusConflict)
		return
	}
	s.written = append(s.written, r.Method+" "+r.URL.Path+" "+string(body))
	if resource != "nodestates" {
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
		return
	}
	var o map[string]any
	if err := json.Unmarshal(body, &o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	metadata, _ := o["metadata"].(map[string]any)
	key := fmt.Sprint("/", metadata["name"])
	before, is := s.objects[resource][key]["metadata"].(map[string]any)
	refusal := 0
	switch {
	case r.Method == http.MethodPost && is:
		refusal = http.StatusConflict
	case r.Method == http.MethodPut && !is:
		refusal = http.StatusNotFound
	case r.Method == http.MethodPut && metadata["resourceVersion"] != before["resourceVersion"]:
		refusal = http.StatusConflict
	}
	if refusal != 0 {
		reason := map[int]string{http.StatusConflict: "Conflict", http.StatusNotFound: "NotFound"}[refusal]
		w.WriteHeader(refusal)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, refusal)
		return
	}
	metadata["resourceVersion"] = strconv.Itoa(len(s.history) + len(s.written) + 1)
	s.objects[resource][key] = o
	_ = json.NewEncoder(w).Encode(o)
}
