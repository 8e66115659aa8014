package netconf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// List is the configuration of a network.
type List struct {
	Name                    string
	Version                 string // of the CNI specification
	DisableCheck, DisableGC bool
	Plugins                 []Plugin
}

// ErrMeta means that a list has a meta plugin.
var ErrMeta = errors.New("it is a meta plugin's configuration")

// DefaultVersion is that of a configuration without one (CNI specification 0.1.0).
const DefaultVersion = "0.1.0"

// Checked returns a list that can be carried out, or why it cannot be. A list of Culvert's own
// plugins has the newest version, whose results have the most fields. The error wraps
// vf.ErrInvalid.
func (l List) Checked() (List, error) {
	if l.Version == "" {
		l.Version = DefaultVersion
	}
	if l.Name == "" {
		return l, fmt.Errorf("name: %w: it has none", vf.ErrInvalid)
	}
	for _, p := range l.Plugins {
		switch {
		case p.IsMeta():
			return l, fmt.Errorf("network %s: %w: %w", l.Name, vf.ErrInvalid, ErrMeta)
		case !api.IsPluginType(p.Type):
			return l, fmt.Errorf("network %s: type %.100q: %w: want the name of a CNI plugin", l.Name, p.Type, vf.ErrInvalid)
		}
	}
	switch {
	case len(l.Plugins) == 0:
		return l, fmt.Errorf("network %s: plugins: %w: there is none", l.Name, vf.ErrInvalid)
	case !slices.ContainsFunc(l.Plugins, isOther) && slices.Contains(api.CNIVersions(), l.Version):
		l.Version = api.CNINewest // only culvertd reads its results
	}
	return l, nil
}

func isOther(p Plugin) bool { return !p.IsOwn() }

// HasOwn reports whether Culvert serves one of the plugins.
func (l List) HasOwn() bool { return slices.ContainsFunc(l.Plugins, Plugin.IsOwn) }
