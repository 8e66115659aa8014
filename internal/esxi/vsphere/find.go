package vsphere

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/suggest"
)

// place has the managed objects of the host.
type place struct {
	host, network, passthru, browser types.ManagedObjectReference
	name                             string
}

// hostsBelow selects all hosts below the root folder.
func hostsBelow(root types.ManagedObjectReference) types.ObjectSpec {
	down := []types.BaseSelectionSpec{&types.SelectionSpec{Name: "folder"}, &types.SelectionSpec{Name: "datacenter"}, &types.SelectionSpec{Name: "compute"}}
	return types.ObjectSpec{Obj: root, Skip: types.NewBool(true), SelectSet: []types.BaseSelectionSpec{
		&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "folder"}, Type: "Folder", Path: "childEntity", SelectSet: down},
		&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "datacenter"}, Type: "Datacenter", Path: "hostFolder", SelectSet: down},
		&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "compute"}, Type: "ComputeResource", Path: "host"},
	}}
}

// findHost finds the host that the file names, and its managed objects.
func (c *Conn) findHost(ctx context.Context) (place, error) {
	ref, err := c.chooseHost(ctx)
	if err != nil {
		return place{}, err
	}
	found, err := c.readObjects(ctx, "find the host", []types.ObjectSpec{{Obj: ref}}, map[string][]string{"HostSystem": {"name", "parent", "configManager"}})
	if err != nil {
		return place{}, err
	}
	host := mo.HostSystem{}
	for _, o := range found {
		if h, ok := o.(mo.HostSystem); ok {
			host = h
		}
	}
	host.Name = unescapeName(host.Name)
	if host.ConfigManager.PciPassthruSystem == nil || host.ConfigManager.NetworkSystem == nil || host.Parent == nil {
		return place{}, fmt.Errorf("%s does not give access to the PCI devices and the network of host %s: the user needs the privilege System.Read on the host, and the host must be connected", c.target.Server, host.Name)
	}
	at := place{host: host.Self, network: *host.ConfigManager.NetworkSystem, passthru: *host.ConfigManager.PciPassthruSystem, name: host.Name}
	parents, err := c.readObjects(ctx, "find the host's compute resource", []types.ObjectSpec{{Obj: *host.Parent}}, map[string][]string{host.Parent.Type: {"environmentBrowser"}})
	if err != nil {
		return place{}, err
	}
	var browser *types.ManagedObjectReference
	for _, o := range parents {
		switch p := o.(type) {
		case mo.ComputeResource:
			browser = p.EnvironmentBrowser
		case mo.ClusterComputeResource:
			browser = p.EnvironmentBrowser
		}
	}
	if browser == nil {
		return place{}, fmt.Errorf("%s does not show the PCI devices of host %s: the user needs the privilege System.Read on its cluster, too", c.target.Server, host.Name)
	}
	at.browser = *browser
	return at, nil
}

// chooseHost returns the one host that the file names. Hosts whose names the user may not read do not
// count.
func (c *Conn) chooseHost(ctx context.Context) (ref types.ManagedObjectReference, err error) {
	spec := types.PropertyFilterSpec{ObjectSet: []types.ObjectSpec{hostsBelow(c.client.ServiceContent.RootFolder)}, PropSet: []types.PropertySpec{{Type: "HostSystem", PathSet: []string{"name"}}}}
	content, err := mo.RetrievePropertiesEx(ctx, c.client, types.RetrievePropertiesEx{This: c.client.ServiceContent.PropertyCollector, SpecSet: []types.PropertyFilterSpec{spec}})
	if err != nil {
		return ref, c.explainFault("find the host", err)
	}
	var names []string
	matching := 0
	var hidden error
	for _, o := range content {
		for _, m := range o.MissingSet {
			hidden = c.explainFault("find the host", &taskError{m.Fault.Fault, excerpt.Line(m.Fault.LocalizedMessage)})
		}
		for _, p := range o.PropSet {
			raw, ok := p.Val.(string)
			if name := unescapeName(raw); ok && p.Name == "name" {
				names = append(names, excerpt.Clean(name))
				if c.target.Host == "" || name == c.target.Host {
					ref = o.Obj
					matching++
				}
			}
		}
	}
	switch {
	case matching == 1:
		return ref, nil
	case hidden != nil && (len(names) == 0 || errors.Is(hidden, ErrLogin)):
		return ref, hidden
	case len(names) == 0:
		return ref, fmt.Errorf("%s shows the user no host: the user needs the privilege System.Read on the host", c.target.Server)
	case matching == 0:
		return ref, fmt.Errorf("%s has no host %q%s", c.target.Server, c.target.Host, listNames(c.target.Host, names))
	case c.target.Host == "":
		return ref, fmt.Errorf("%s has %d hosts: write host in the file%s", c.target.Server, len(names), listNames("", names))
	}
	return ref, fmt.Errorf("%s has %d hosts %s: rename all but one, or name the ESXi host itself as server", c.target.Server, matching, c.target.Host)
}

// unescapeName returns the name of a managed object as people see it. The API says of
// ManagedEntity.name: "Any % (percent) character used in this name element must be escaped, unless it
// is used to start an escape sequence", as is / (%2f) and \ (%5c).
func unescapeName(name string) string {
	return strings.NewReplacer("%2f", "/", "%2F", "/", "%5c", `\`, "%5C", `\`, "%25", "%").Replace(name)
}

// listNames returns the tail of a message about an unknown name.
func listNames(name string, known []string) string {
	if s := suggest.DidYouMean(name, known); s != "" {
		return s
	}
	const most = 20
	if more := len(known) - most; more > 0 {
		return fmt.Sprintf(": there are %s and %d more", strings.Join(known[:most], ", "), more)
	}
	return ": there are " + strings.Join(known, ", ")
}

// readObjects reads properties of objects. properties has the paths for each type. The results are
// values of package mo.
func (c *Conn) readObjects(ctx context.Context, action string, objects []types.ObjectSpec, properties map[string][]string) ([]any, error) {
	spec := types.PropertyFilterSpec{ObjectSet: objects}
	for kind, paths := range properties {
		spec.PropSet = append(spec.PropSet, types.PropertySpec{Type: kind, PathSet: paths})
	}
	content, err := mo.RetrievePropertiesEx(ctx, c.client, types.RetrievePropertiesEx{This: c.client.ServiceContent.PropertyCollector, SpecSet: []types.PropertyFilterSpec{spec}})
	if err != nil {
		return nil, c.explainFault(action, err)
	}
	var all []any
	for _, o := range content {
		if len(o.MissingSet) > 0 {
			m := o.MissingSet[0]
			return nil, c.explainFault(action, &taskError{m.Fault.Fault, fmt.Sprintf("property %s of %s cannot be read: %s", m.Path, o.Obj.Value, excerpt.Line(m.Fault.LocalizedMessage))})
		}
		v, err := mo.ObjectContentToType(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", action, err)
		}
		all = append(all, v)
	}
	return all, nil
}
