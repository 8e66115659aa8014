// Package prometheus runs Debian's Prometheus for tests, with Culvert's rules, and asks it.
package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/culvert-net/culvert/test/child"
	"github.com/culvert-net/culvert/test/promises"
)

// Server is a Prometheus that runs.
type Server struct{ URL string }

// Program returns the path of the program prometheus. top is the top of the tree.
func Program(t *testing.T, top string) string {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), top+"/tools/prometheus").Output()
	if err != nil {
		t.Fatalf("tools/prometheus: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(folder)), "prometheus")
}

// WriteConfig writes a configuration with scrape jobs and with Culvert's rules, whose times the command of
// docs/alerts.md makes short, into the folder dir. It returns the flags that Prometheus needs for it.
func WriteConfig(t *testing.T, top, dir string, jobs ...any) (flags []string) {
	t.Helper()
	text, err := yaml.Marshal(map[string]any{
		"global":         map[string]any{"scrape_interval": "3s", "scrape_timeout": "3s", "evaluation_interval": "1s"},
		"rule_files":     []any{writeQuickRules(t, top, dir)},
		"scrape_configs": jobs,
	})
	if err == nil {
		err = os.WriteFile(dir+"/prometheus.yml", text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return []string{"--config.file=" + dir + "/prometheus.yml", "--storage.tsdb.path=" + dir + "/data"}
}

// writeQuickRules runs the command of docs/alerts.md that makes the times of the rules short, and returns
// the path of the rules.
func writeQuickRules(t *testing.T, top, dir string) string {
	t.Helper()
	page, err := os.ReadFile(top + "/docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	all := promises.Commands(string(page))
	i := slices.IndexFunc(all, func(c string) bool { return strings.HasPrefix(c, "sed ") })
	tree, err := filepath.Abs(top + "/dist")
	if err == nil {
		err = os.Symlink(tree, dir+"/dist")
	}
	if err != nil || i < 0 {
		t.Fatal(err, all)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euc", all[i])
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", all[i], err, out)
	}
	return dir + "/quick-rules.yaml"
}

// Start starts Prometheus with scrape jobs on this machine's loopback. It ends with the test.
func Start(t *testing.T, top string, jobs ...any) Server {
	t.Helper()
	dir := t.TempDir()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	cmd := exec.CommandContext(t.Context(), Program(t, top), append(WriteConfig(t, top, dir, jobs...), "--web.listen-address="+address)...)
	log, err := os.Create(dir + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if said, _ := os.ReadFile(dir + "/log"); t.Failed() {
			t.Logf("Prometheus: %s", said[max(0, len(said)-4000):])
		}
	})
	return Server{"http://" + address}
}

// GetData decodes the data of an answer of Prometheus.
func (s Server) GetData(path string, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var body struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		return err
	}
	if body.Status != "success" {
		return errors.New(body.Error)
	}
	return json.Unmarshal(body.Data, into)
}

// Sample is a sample of a query's answer.
type Sample struct{ Metric map[string]string }

// RunQuery returns the samples of a query.
func (s Server) RunQuery(expr string) ([]Sample, error) {
	var data struct{ Result []Sample }
	err := s.GetData("/api/v1/query?query="+url.QueryEscape(expr), &data)
	return data.Result, err
}

// ListFiring returns the names of the alerts that fire.
func (s Server) ListFiring() ([]string, error) {
	all, err := s.RunQuery(`ALERTS{alertstate="firing"}`)
	var names []string
	for _, one := range all {
		names = append(names, one.Metric["alertname"])
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// CheckFires returns an error unless an alert fires, or does not.
func (s Server) CheckFires(name string, want bool) error {
	all, err := s.ListFiring()
	if err == nil && slices.Contains(all, name) != want {
		err = fmt.Errorf("the alerts that fire: %q", all)
	}
	return err
}
