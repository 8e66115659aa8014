package cluster

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/culvert-net/culvert/lab"
)

// Options describes the cluster to bring up.
type Options struct {
	Lab     lab.Options // without Prepare and Finish, which package cluster sets
	Source  string      // Culvert's source tree, which has tools/part
	Runtime Runtime     // the nodes' container runtime; empty: containerd
	CNI     CNI         // the default network of pods; empty: Flannel
	Version Version     // of Kubernetes; empty: Current
	// Bare leaves the nodes as their image has them. The control plane runs, and takes nodes with
	// a bootstrap token. AllowJoin takes nodes of the version Current only.
	Bare bool
}

// A Cluster is a lab with Kubernetes that is up.
type Cluster struct {
	Lab        *lab.Lab
	Kubeconfig string // a file for clients on this host, as a member of system:masters
	AuditLog   string // a file of audit.k8s.io/v1 events, a line each: every request, at level Metadata
	CNI        CNI
	Parts      Parts

	bare bool // see Options; only Up knows it
}

// folder is the name of the cluster's folder on the host, within the lab's.
const folder = "kubernetes"

// stateFile, within the folder, has the facts that Open needs. It is written last: a lab with this
// file has a cluster that was ready once.
const stateFile = "cluster.json"

// state is the content of stateFile.
type state struct {
	CNI   CNI   `json:"cni"`
	Parts Parts `json:"parts"`
}

// Up brings up a lab and its cluster, and returns when all nodes are Ready and have their images.
// If that lab is up with Kubernetes already, it is returned as it is. If ctx ends first, or the
// calling process dies, the lab is removed.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	var parts Parts
	n := o.CNI
	o.Lab.AppArmor = true // as on the nodes of Debian, Ubuntu and SUSE
	if o.Runtime == CRIO {
		o.Lab.Addition = lab.CRIO
	}
	if n.isCalico() {
		o.Lab.NoSnapshot = true // the token of its plugin is valid for a day only
	}
	o.Lab.Prepare = func(ctx context.Context, step func(string, ...any)) (s lab.Software, err error) {
		if parts, err = FindParts(ctx, o, step); err != nil {
			return s, err
		}
		if !o.Bare {
			if s.Layer, err = nodeSoftware(parts, n); err != nil {
				return s, err
			}
		}
		s.Setup, err = newSetup(parts, n, o.Bare)
		return s, err
	}
	o.Lab.Finish = func(ctx context.Context, l *lab.Lab, step func(string, ...any)) error {
		c := newCluster(l, parts, n)
		c.bare = o.Bare
		return c.openSaved(ctx, step)
	}
	l, err := lab.Up(ctx, o.Lab)
	if err != nil {
		return nil, err
	}
	c, err := openCluster(l)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if err := c.checkKind(o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// complete returns o with its defaults, and an error if there is no such cluster.
func (o Options) complete() (Options, error) {
	var cniErr, versionErr error
	o.Runtime = cmp.Or(o.Runtime, Containerd)
	o.CNI, cniErr = ParseCNI(string(o.CNI))
	o.Version, versionErr = ParseVersion(string(o.Version))
	return o, errors.Join(cniErr, versionErr)
}

// checkKind returns an error if the cluster is of another kind than complete options ask for.
func (c *Cluster) checkKind(o Options) error {
	for _, one := range []struct{ has, want string }{
		{string(c.Parts.Runtime), string(o.Runtime)},
		{c.CNI.Title(), o.CNI.Title()},
		{"Kubernetes " + string(c.Parts.Version), "Kubernetes " + string(o.Version)},
	} {
		if one.has != one.want {
			return fmt.Errorf("bring up the lab %s with %s: it is up with %s: take it down first, or give another --name", c.Lab.Name(), one.want, one.has)
		}
	}
	return nil
}

// ErrNone is returned for a lab that was brought up without Kubernetes.
var ErrNone = errors.New("it has no Kubernetes: take it down first, or give another --name")

// Open returns the cluster of a lab that is up.
func Open(name string) (*Cluster, error) {
	l, err := lab.Open(name)
	if err != nil {
		return nil, err
	}
	c, err := openCluster(l)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return c, nil
}

func newCluster(l *lab.Lab, parts Parts, n CNI) *Cluster {
	dir := filepath.Join(l.Folder(), folder)
	return &Cluster{
		Lab: l, Parts: parts, CNI: n,
		Kubeconfig: filepath.Join(dir, "kubeconfig"), AuditLog: filepath.Join(dir, "audit.log"),
	}
}

func openCluster(l *lab.Lab) (*Cluster, error) {
	body, err := os.ReadFile(filepath.Join(l.Folder(), folder, stateFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open the cluster of the lab %s: %w", l.Name(), ErrNone)
	}
	var s state
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	if err != nil {
		return nil, fmt.Errorf("open the cluster of the lab %s: %w", l.Name(), err)
	}
	return newCluster(l, s.Parts, s.CNI), nil
}

// Close drops the connections to the lab, which stays up.
func (c *Cluster) Close() error { return c.Lab.Close() }

// sources has the code and the files that determine a cluster.
//
//go:embed *.go all:files
var sources embed.FS

// newSetup returns the work that makes the nodes of a lab a cluster. Its snapshot keeps the running
// kubelets, and the data of the control plane.
func newSetup(parts Parts, n CNI, bare bool) (*lab.Setup, error) {
	sum, err := lab.HashFiles(sources)
	if err != nil {
		return nil, err
	}
	return &lab.Setup{
		Key: fmt.Sprintf("kubernetes %s %s %+v %t", n, sum, parts, bare), Folder: folder,
		Run: func(ctx context.Context, l *lab.Lab, step func(string, ...any)) error {
			c := newCluster(l, parts, n)
			c.bare = bare
			return c.createCluster(ctx, step)
		},
	}, nil
}

// createCluster makes the cluster on a lab whose nodes take commands.
func (c *Cluster) createCluster(ctx context.Context, step func(string, ...any)) error {
	nodes, err := c.Lab.Nodes()
	if err != nil {
		return err
	}
	p, err := newPlan(c, nodes)
	if err != nil {
		return err
	}
	if err := p.writeIdentities(); err != nil {
		return err
	}
	step("starting etcd and the control plane")
	if err := p.startControlPlane(ctx); err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	if c.bare {
		return nil
	}
	step("joining %s", joinNames(nodes))
	if err := p.joinAll(ctx); err != nil {
		return err
	}
	step("waiting for Ready nodes")
	if err := p.awaitNodes(ctx, step); err != nil {
		return err
	}
	return p.awaitNetwork(ctx)
}

// openSaved completes a cluster that createCluster made in this lab, or in the lab that the
// snapshot was taken of. In a lab from a snapshot it starts the control plane with its saved data,
// and the kubelets connect to it again.
func (c *Cluster) openSaved(ctx context.Context, step func(string, ...any)) error {
	st, err := c.Lab.Status()
	if err != nil {
		return err
	}
	p, err := openPlan(c, st.Nodes)
	if err != nil {
		return err
	}
	if len(st.Programs) == 0 {
		step("starting the control plane with what it had stored")
		if err := p.resumeCluster(ctx); err != nil {
			return err
		}
	}
	if err := p.routePods(ctx); err != nil {
		return err
	}
	body, err := json.Marshal(state{c.CNI, c.Parts})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.dir, stateFile), body, 0o600)
}

func joinNames(nodes []lab.Node) string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return strings.Join(all, ", ")
}

// StopProgram kills a part of the control plane: etcd, kube-apiserver,
// kube-scheduler or kube-controller-manager.
func (c *Cluster) StopProgram(ctx context.Context, name string) error { return c.Lab.End(ctx, name) }

// StartProgram starts a part of the control plane that was stopped.
func (c *Cluster) StartProgram(ctx context.Context, name string) error {
	return c.Lab.Run(ctx, lab.Program{Name: name})
}

// Kubectl runs kubectl with the cluster's kubeconfig and returns its standard output. The error has
// its standard error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) ([]byte, error) {
	return c.KubectlIn(ctx, nil, args...)
}

// KubectlIn runs kubectl like Kubectl, with a standard input, such as manifests for apply -f -.
func (c *Cluster) KubectlIn(ctx context.Context, in io.Reader, args ...string) ([]byte, error) {
	cmd := c.KubectlCommand(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.Bytes(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), errors.Join(err, context.Cause(ctx)), strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// KubectlCommand returns kubectl with the cluster's kubeconfig, not started yet.
func (c *Cluster) KubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.Parts.Kubernetes, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	cmd.WaitDelay = time.Second
	return cmd
}
