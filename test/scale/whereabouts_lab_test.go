//go:build lab

package scale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/test/apiserver"
)

// whereabouts is the plugin of that name in a cluster whose API server is behind the proxy.
type whereabouts struct{ plugins, config string }

func newWhereabouts(t *testing.T, server *apiserver.Server, p *proxy) *whereabouts {
	t.Helper()
	apiserver.Eventually(t, "namespace kube-system", func() error { return server.Do("GET", "/api/v1/namespaces/kube-system", "", nil) })
	plugins, file := server.InstallWhereabouts("https://" + p.addr)
	return &whereabouts{plugins, fmt.Sprintf(`{"cniVersion":"0.3.1","name":"theirs","type":"sriov","ipam":{"type":"whereabouts","range":"10.64.0.0/14","configuration_path":%q}}`, file)}
}

// add runs an ADD of the plugin, as a runtime does.
func (w *whereabouts) add(ctx context.Context, pod string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(w.plugins, "whereabouts"))
	cmd.Env = append(os.Environ(), "CNI_COMMAND=ADD", "CNI_CONTAINERID="+pod, "CNI_IFNAME=net1", "CNI_NETNS=/run/netns/"+pod, "CNI_PATH="+w.plugins,
		"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME="+pod)
	cmd.Stdin, cmd.Stdout = strings.NewReader(w.config), &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %.200s", err, out.String())
	}
	return nil
}

// rate returns how many addresses a second the plugin gives if that many nodes request them
// at once.
func (w *whereabouts) rate(t *testing.T, nodes int, during time.Duration) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	var g errgroup.Group
	var given, refused atomic.Int64
	begin := time.Now()
	for i := range nodes {
		g.Go(func() error {
			for k := 0; ctx.Err() == nil; k++ {
				err := w.add(ctx, fmt.Sprintf("n%d-%d-%d-%d", nodes, i, k, begin.Unix()))
				switch {
				case err == nil:
					given.Add(1)
				case ctx.Err() == nil && refused.Add(1) == 1:
					t.Logf("whereabouts refuses a pod, as it does when too many ask at once: %v", err)
				}
			}
			return nil
		})
	}
	_ = g.Wait()
	if given.Load() == 0 {
		t.Fatal(errors.New("whereabouts gives no address"))
	}
	return float64(given.Load()) / time.Since(begin).Seconds()
}
