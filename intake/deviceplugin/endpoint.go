package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/culvert-net/culvert/change"
	"github.com/culvert-net/culvert/desired"
)

const (
	kubeletSocket = "kubelet.sock"
	registerBound = time.Minute // the kubelet dials back before it answers, and may be busy
	firstRetry    = time.Second
	lastRetry     = 30 * time.Second
)

// endpoint serves one pool on a socket of its own, and has it registered with
// the kubelet that is there.
type endpoint struct {
	plugin *Plugin
	name   string // full name of the pool
	stop   context.CancelFunc

	changed change.Signal
	mu      sync.Mutex // guards all below
	pool    desired.Pool
	devices []device
	problem string
}

func (e *endpoint) set(pool desired.Pool, devices []device) {
	e.mu.Lock()
	e.pool, e.devices = pool, devices
	e.mu.Unlock()
	e.changed.Notify()
}

func (e *endpoint) get() (desired.Pool, []device) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pool, e.devices
}

func (e *endpoint) trouble() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.problem
}

func (e *endpoint) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if text != "" && text != e.problem {
		e.plugin.Log.Warn("pool is not served to pods", "pool", e.name, "err", err)
	}
	e.problem = text
}

// socket is the endpoint's file name. A path of a socket has 107 bytes at most
// (unix(7)), and a pool's name may be longer.
func (e *endpoint) socket() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(e.name))
	_, short, _ := strings.Cut(e.name, "/")
	return fmt.Sprintf("culvert-%s-%08x.sock", short[:min(len(short), 24)], h.Sum32())
}

// run serves the pool to one kubelet after another until ctx ends.
func (e *endpoint) run(ctx context.Context) {
	retry := firstRetry
	for ctx.Err() == nil {
		begun := time.Now()
		moved := e.plugin.dir.Next()
		now, err := lookAt(e.kubelet())
		if err != nil {
			err = fmt.Errorf("there is no kubelet yet: %w", err)
		} else {
			err = e.session(ctx, now)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			continue // another kubelet is there, or this one has cleared its folder
		}
		e.report(err)
		if time.Since(begun) > time.Minute {
			retry = firstRetry
		}
		if now == (file{}) {
			e.await(ctx, now, moved, nil)
			continue
		}
		e.await(ctx, now, moved, time.After(retry))
		retry = min(2*retry, lastRetry)
	}
}

// await returns when another kubelet is there than the one of then, or it is
// time.
func (e *endpoint) await(ctx context.Context, then file, moved <-chan struct{}, at <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-at:
			return
		case <-moved:
		}
		moved = e.plugin.dir.Next()
		if now, err := lookAt(e.kubelet()); err == nil && now != then {
			return
		}
	}
}

func (e *endpoint) kubelet() string { return filepath.Join(e.plugin.Dir, kubeletSocket) }

var errHungUp = errors.New("the kubelet has hung up: does another device plugin serve this resource?")

// session serves the pool to one kubelet. It returns nil when that is not the
// one any more, or has removed the socket, as a kubelet does when it starts.
func (e *endpoint) session(ctx context.Context, kubelet file) (err error) {
	path := filepath.Join(e.plugin.Dir, e.socket())
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of a culvertd that was killed
		return err
	}
	moved := e.plugin.dir.Next()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return err
	}
	if l, ok := listener.(*net.UnixListener); ok {
		l.SetUnlinkOnClose(false) // it may be somebody else's by then
	}
	own, err := lookAt(path)
	if err = errors.Join(err, os.Chmod(path, 0o600)); err != nil {
		return errors.Join(err, listener.Close())
	}
	s := &service{endpoint: e, hungUp: change.NewWake()}
	srv := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(srv, s)
	var g errgroup.Group
	g.Go(func() error { return srv.Serve(listener) })
	defer func() {
		srv.Stop()
		err = errors.Join(err, g.Wait())
		if now, gone := lookAt(path); gone == nil && now == own {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	if err := e.register(ctx); err != nil {
		return err
	}
	e.report(nil)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.hungUp:
			err = errHungUp
		case <-moved:
		}
		moved = e.plugin.dir.Next()
		now, err1 := lookAt(e.kubelet())
		mine, err2 := lookAt(path)
		if err1 != nil || err2 != nil || now != kubelet || mine != own {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// register tells the kubelet of the pool.
func (e *endpoint) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, registerBound)
	defer cancel()
	conn, err := grpc.NewClient("unix:"+e.kubelet(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: e.socket(), ResourceName: e.name, Options: options(),
	})
	if err != nil {
		return fmt.Errorf("register with the kubelet on %s: %w", e.kubelet(), err)
	}
	e.plugin.Log.Info("registered with the kubelet", "pool", e.name)
	return nil
}

func options() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}
}

// file tells one file of a name from another of that name: its number may be
// given out again at once.
type file struct {
	inode    uint64
	modified int64 // nanoseconds since 1970
}

func lookAt(path string) (file, error) {
	info, err := os.Stat(path)
	if err != nil {
		return file{}, err
	}
	f := file{modified: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		f.inode = st.Ino
	}
	return f, nil
}
