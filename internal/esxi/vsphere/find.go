package vsphere

import (
	"context"
	"fmt"
	"strings"

	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

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
	found, err := c.readObjects(ctx, "find the host", []types.ObjectSpec{hostsBelow(c.client.ServiceContent.RootFolder)}, map[string][]string{"HostSystem": {"name", "parent", "configManager"}})
	if err != nil {
		return place{}, err
	}
	var names []string
	var host *mo.HostSystem
	for _, o := range found {
		h, ok := o.(mo.HostSystem)
		if !ok {
			continue
		}
		names = append(names, h.Name)
		if c.target.Host == "" || h.Name == c.target.Host {
			host = &h
		}
	}
	switch {
	case host == nil:
		return place{}, fmt.Errorf("%s has no host %q%s", c.target.Server, c.target.Host, listNames(c.target.Host, names))
	case c.target.Host == "" && len(names) > 1:
		return place{}, fmt.Errorf("%s has %d hosts: write host in the file%s", c.target.Server, len(names), listNames("", names))
	case host.ConfigManager.PciPassthruSystem == nil || host.ConfigManager.NetworkSystem == nil || host.Parent == nil:
		return place{}, fmt.Errorf("%s does not give access to the PCI devices and the network of host %s: the user needs the privilege System.Read on the host, and the host must be connected", c.target.Server, host.Name)
	}
	at := place{host: host.Self, network: *host.ConfigManager.NetworkSystem, passthru: *host.ConfigManager.PciPassthruSystem, name: host.Name}
	parents, err := c.readObjects(ctx, "find the host's compute resource", []types.ObjectSpec{{Obj: *host.Parent}}, map[string][]string{host.Parent.Type: {"environmentBrowser"}})
	if err != nil {
		return place{}, err
	}
	for _, o := range parents {
		switch p := o.(type) {
		case mo.ComputeResource:
			at.browser = *p.EnvironmentBrowser
		case mo.ClusterComputeResource:
			at.browser = *p.EnvironmentBrowser
		}
	}
	return at, nil
}

// listNames returns the tail of a message about an unknown name.
func listNames(name string, known []string) string {
	if s := suggest.DidYouMean(name, known); s != "" {
		return s
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
			return nil, c.explainFault(action, &taskError{m.Fault.Fault, fmt.Sprintf("property %s of %s cannot be read: %s", m.Path, o.Obj.Value, m.Fault.LocalizedMessage)})
		}
		v, err := mo.ObjectContentToType(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", action, err)
		}
		all = append(all, v)
	}
	return all, nil
}
