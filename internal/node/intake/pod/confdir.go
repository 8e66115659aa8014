package pod

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"

	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/vf"
)

// listFiles returns the configurations in a folder, in the order in which runtimes look at
// them; loadFile reads one.
func listFiles(dir string) ([]string, error) {
	all, err := libcni.ConfFiles(dir, []string{".conf", ".conflist", ".json"})
	if err != nil {
		return nil, fmt.Errorf("network configurations in %s: %w", dir, err)
	}
	slices.Sort(all)
	return all, nil
}

func loadFile(file string) (netconf.List, error) {
	l, err := config.ReadFile(file)
	if err != nil {
		return l, fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	return l, nil
}

// defaultIn returns the cluster's default network: the first configuration in the folder that
// is not a meta plugin's. Files that cannot be read do not hide the others (I7); the error
// lists them when there is no other.
func defaultIn(dir string) (netconf.List, error) {
	return firstIn(dir, func(netconf.List) bool { return true }, "the default network of the cluster: install one (Flannel, Calico ...)")
}

// namedIn returns the configuration of that name in the folder.
func namedIn(dir, name string) (netconf.List, error) {
	return firstIn(dir, func(l netconf.List) bool { return l.Name == name }, "a network of the name "+name)
}

func firstIn(dir string, is func(netconf.List) bool, want string) (netconf.List, error) {
	all, err := listFiles(dir)
	if err != nil {
		return netconf.List{}, err
	}
	var broken []string
	for _, file := range all {
		l, err := loadFile(file)
		switch {
		case errors.Is(err, netconf.ErrMeta):
		case err != nil:
			broken = append(broken, err.Error())
		case is(l):
			return l, nil
		}
	}
	more := ""
	if len(broken) > 0 {
		more = "; not to be read: " + strings.Join(broken, "; ")
	}
	return netconf.List{}, fmt.Errorf("%s has no configuration of %s: %w%s", dir, want, vf.ErrNotFound, more)
}
