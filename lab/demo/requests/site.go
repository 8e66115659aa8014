package requests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/cluster"
)

// Port is the port on which the pods of [Site.Backend] serve.
const Port = 8080

// program is where nodes and the pods of a Site have the program.
const folder, program = "/usr/local/lib/requests", "/usr/local/lib/requests/requests"

// Build builds the program from a source tree into a folder, which is the caller's, and returns
// its path.
func Build(ctx context.Context, source, dir string) (string, error) {
	build := exec.CommandContext(ctx, "tools/go", "build", "-o", dir, "./test/bench/requests")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program of requests: %w\n%s", err, out)
	}
	return filepath.Join(dir, "requests"), nil
}

// Site is a cluster whose nodes have the program.
type Site struct{ *cluster.Cluster }

// Install puts the program onto nodes.
func Install(ctx context.Context, c *cluster.Cluster, built string, nodes ...string) (Site, error) {
	for _, node := range nodes {
		if err := c.Lab.Copy(ctx, node, built, program); err != nil {
			return Site{}, err
		}
	}
	return Site{c}, nil
}

// Backend returns the manifest of a pod that serves under its name, with labels app and pod.
func (s Site) Backend(app, name, node, networks string) string {
	return manifest(app, name, node, networks, Serve{Port, name}.Args())
}

// Client returns the manifest of a pod that waits for commands.
func (s Site) Client(name, node, networks string) string {
	return manifest("client", name, node, networks, nil)
}

func manifest(app, name, node, networks string, args []string) string {
	command := []string{"sleep", "infinity"}
	if args != nil {
		command = append([]string{program}, args...)
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": name, "labels": map[string]string{"app": app, "pod": name}, "annotations": map[string]string{"k8s.v1.cni.cncf.io/networks": networks}},
		"spec": map[string]any{
			"nodeName": node, "enableServiceLinks": false, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 5,
			"volumes": []any{map[string]any{"name": "program", "hostPath": map[string]string{"path": folder}}},
			"containers": []any{map[string]any{
				"name": "main", "image": "docker.io/centos/tools:latest", "imagePullPolicy": "Never", "command": command,
				"volumeMounts": []any{map[string]any{"name": "program", "mountPath": folder, "readOnly": true}},
			}},
		},
	})
	if err != nil {
		panic(err) // maps of strings
	}
	return "---\n" + string(text) + "\n"
}

// Service returns the manifest of a Service with a ClusterIP in front of the pods with a label.
// Annotations are those of docs/services.md.
func (s Site) Service(name, key, value string, annotations map[string]string) string {
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": name, "annotations": annotations},
		"spec": map[string]any{"selector": map[string]string{key: value}, "ports": []any{map[string]any{"port": 80, "targetPort": Port, "protocol": "TCP"}}},
	})
	if err != nil {
		panic(err)
	}
	return "---\n" + string(text) + "\n"
}

// Call makes requests from a pod on a node, and returns them by this host's clock.
func (s Site) Call(ctx context.Context, pod, node string, c Call) (Log, error) {
	before, err := s.Offset(ctx, node)
	if err != nil {
		return nil, err
	}
	out, err := s.Kubectl(ctx, append([]string{"exec", pod, "--", program}, c.Args()...)...)
	if err != nil {
		return nil, err
	}
	after, err := s.Offset(ctx, node)
	if err != nil {
		return nil, err
	}
	all, err := parseLog(bytes.NewReader(out))
	for i := range all {
		all[i].Begun -= int64((before + after) / 2)
	}
	return all, err
}

func parseLog(in io.Reader) (all Log, err error) {
	for d := json.NewDecoder(in); ; {
		var r Request
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read what became of requests: %w", err)
		}
		all = append(all, r)
	}
}

// Compare makes requests from a pod to targets in turns, and returns how many a second by round
// and target.
func (s Site) Compare(ctx context.Context, pod string, c Compare) (rates [][]float64, err error) {
	out, err := s.Kubectl(ctx, append([]string{"exec", pod, "--", program}, c.Args()...)...)
	if err == nil {
		err = json.Unmarshal(out, &rates)
	}
	return rates, err
}

// Offset returns how far the clock of a node is ahead of this host's.
func (s Site) Offset(ctx context.Context, node string) (time.Duration, error) {
	in, toClock := io.Pipe()
	fromClock, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Lab.Exec(ctx, node, lab.Cmd{Argv: append([]string{program}, Clock{}.Args()...), Stdin: in, Stdout: out, Stderr: os.Stderr})
		_ = in.Close()
		_ = out.CloseWithError(errors.Join(io.EOF, err))
		ended <- err
	}()
	lines := bufio.NewReader(fromClock)
	offset, _, err := Offset(20, time.Now, func() (time.Time, error) {
		if _, err := io.WriteString(toClock, "\n"); err != nil {
			return time.Time{}, err
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			return time.Time{}, err
		}
		ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		return time.Unix(0, ns), err
	})
	_ = toClock.Close()
	if err := errors.Join(err, <-ended); err != nil {
		return 0, fmt.Errorf("compare the clock of %s: %w", node, err)
	}
	return offset, nil
}

// Write is one request to the API server that changed something.
type Write struct {
	At   time.Time // when the API server had written it: before that, no client can have heard of it
	Name string    // of the object
}

// Writes returns when objects of a resource were changed, since a time, by a user, in the order of
// the API server's audit log. An empty user or verb is any.
func (s Site) Writes(user, verb, resource string, since time.Time) (out []Write, err error) {
	f, err := os.Open(s.AuditLog)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return out, nil // the API server writes on
		}
		var e struct {
			Stage string `json:"stage"`
			Verb  string `json:"verb"`
			User  struct {
				Name string `json:"username"`
			} `json:"user"`
			Object struct {
				Resource    string `json:"resource"`
				Subresource string `json:"subresource"`
				Name        string `json:"name"`
			} `json:"objectRef"`
			Received time.Time `json:"requestReceivedTimestamp"`
			Answered time.Time `json:"stageTimestamp"` // of ResponseComplete
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Base(s.AuditLog), err)
		}
		isWrite := e.Verb != "get" && e.Verb != "list" && e.Verb != "watch"
		if e.Stage == "ResponseComplete" && isWrite && e.Object.Resource == resource && e.Object.Subresource == "" &&
			(user == "" || e.User.Name == user) && (verb == "" || e.Verb == verb) && !e.Received.Before(since) {
			out = append(out, Write{e.Answered, e.Object.Name})
		}
	}
}

// Controller is the user as which Culvert's controller writes.
const Controller = "system:serviceaccount:" + cluster.Namespace + ":culvert-controller"

// EndpointChanged returns when the controller first changed EndpointSlices of a Service since a
// time. It waits for that as long as ctx lasts.
func (s Site) EndpointChanged(ctx context.Context, service string, since time.Time) (time.Time, error) {
	for {
		all, err := s.Writes(Controller, "", "endpointslices", since)
		for _, w := range all {
			if strings.HasPrefix(w.Name, service+"-") {
				return w.At, nil
			}
		}
		if err != nil {
			return time.Time{}, err
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("no EndpointSlice of Service %s was changed: %w", service, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
