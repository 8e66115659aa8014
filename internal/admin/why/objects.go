package why

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Pod is the part of a core/v1 Pod that shows what it waits for.
type Pod struct {
	Metadata struct {
		Namespace         string            `json:"namespace"`
		Name              string            `json:"name"`
		UID               string            `json:"uid"`
		Annotations       map[string]string `json:"annotations"`
		Finalizers        []string          `json:"finalizers"`
		CreationTimestamp time.Time         `json:"creationTimestamp"`
		DeletionTimestamp *time.Time        `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		NodeName        string `json:"nodeName"`
		SchedulerName   string `json:"schedulerName"`
		SchedulingGates []struct {
			Name string `json:"name"`
		} `json:"schedulingGates"`
		InitContainers []Container `json:"initContainers"`
		Containers     []Container `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase                 string            `json:"phase"`
		Reason                string            `json:"reason"`
		Message               string            `json:"message"`
		StartTime             time.Time         `json:"startTime"`
		Conditions            []Condition       `json:"conditions"`
		InitContainerStatuses []ContainerStatus `json:"initContainerStatuses"`
		ContainerStatuses     []ContainerStatus `json:"containerStatuses"`
	} `json:"status"`
}

// Container is the part of a container that asks for devices.
type Container struct {
	Name      string `json:"name"`
	Resources struct {
		Requests map[string]string `json:"requests"`
		Limits   map[string]string `json:"limits"`
	} `json:"resources"`
}

// Condition is a condition of a pod or node.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// ContainerStatus is the state of a container.
type ContainerStatus struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	State struct {
		Waiting *struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"waiting"`
		Running *struct {
			StartedAt time.Time `json:"startedAt"`
		} `json:"running"`
	} `json:"state"`
}

// Event is the part of a core/v1 Event that a person reads. The scheduler fills in eventTime and
// series, the kubelet the two timestamps and count.
type Event struct {
	Type           string     `json:"type"`
	Reason         string     `json:"reason"`
	Message        string     `json:"message"`
	FirstTimestamp *time.Time `json:"firstTimestamp"`
	LastTimestamp  *time.Time `json:"lastTimestamp"`
	EventTime      *time.Time `json:"eventTime"`
	Series         *struct {
		LastObservedTime time.Time `json:"lastObservedTime"`
	} `json:"series"`
	ReportingComponent string `json:"reportingComponent"`
	Source             struct {
		Component string `json:"component"`
	} `json:"source"`
}

// last returns when the event happened last.
func (e Event) last() time.Time {
	var at time.Time
	if e.Series != nil {
		at = e.Series.LastObservedTime
	}
	for _, t := range []*time.Time{e.LastTimestamp, e.EventTime} {
		if t != nil && t.After(at) {
			at = *t
		}
	}
	return at
}

// first returns when the event happened first.
func (e Event) first() time.Time {
	for _, t := range []*time.Time{e.FirstTimestamp, e.EventTime} {
		if t != nil && !t.IsZero() {
			return *t
		}
	}
	return e.last()
}

// reporter is the program that wrote the event.
func (e Event) reporter() string { return cmp.Or(e.ReportingComponent, e.Source.Component) }

// Node is the part of a core/v1 Node that decides about pods.
type Node struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
	Status struct {
		Allocatable map[string]string `json:"allocatable"`
		Conditions  []Condition       `json:"conditions"`
	} `json:"status"`
}

// ready returns the node's condition Ready.
func (n Node) ready() bool {
	c, found := findCondition(n.Status.Conditions, "Ready")
	return !found || c.Status == "True"
}

func findCondition(all []Condition, kind string) (Condition, bool) {
	i := slices.IndexFunc(all, func(c Condition) bool { return c.Type == kind })
	if i < 0 {
		return Condition{}, false
	}
	return all[i], true
}

// String is namespace/name.
func (p Pod) String() string { return p.Metadata.Namespace + "/" + p.Metadata.Name }

// requestedResource is a resource of devices that a pod requests.
type requestedResource struct {
	name  string
	count int
}

// resources returns the resources of devices that the pod requests, by name: the sum of its
// containers, or the most of one of its init containers. The API server makes limits and requests
// of a device the same.
func (p Pod) resources() []requestedResource {
	all := map[string]int{}
	for _, c := range p.Spec.Containers {
		for name, n := range c.devices() {
			all[name] += n
		}
	}
	for _, c := range p.Spec.InitContainers {
		for name, n := range c.devices() {
			all[name] = max(all[name], n)
		}
	}
	var out []requestedResource
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, requestedResource{name, all[name]})
	}
	return out
}

// devices returns the extended resources of a container: names with a domain that is not
// Kubernetes' own.
func (c Container) devices() map[string]int {
	all := map[string]int{}
	for _, of := range []map[string]string{c.Resources.Limits, c.Resources.Requests} {
		for name, quantity := range of {
			n, err := strconv.Atoi(quantity)
			if domain, _, has := strings.Cut(name, "/"); err != nil || n == 0 || !has || strings.HasSuffix(domain, "kubernetes.io") {
				continue
			}
			all[name] = n
		}
	}
	return all
}

// isRunning reports whether all containers run.
func (p Pod) isRunning() bool {
	return len(p.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(p.Status.ContainerStatuses, func(c ContainerStatus) bool { return c.State.Running == nil })
}
