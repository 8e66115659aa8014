package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	registerBound = time.Minute // the kubelet dials back before it answers, and may be busy
	firstRetry    = time.Second
	lastRetry     = 30 * time.Second
)

// Service is a gRPC service on a socket of its own. Run serves it; its other methods
// may be called meanwhile.
type Service struct {
	Folder *Folder
	Name   string // for the log
	// File is the name of the socket in the folder. The path of a socket has at most
	// 107 bytes (unix(7)).
	File string
	// Add adds the service to a server, which lasts until end is called with the
	// reason why the kubelet does not use the service any more.
	Add func(srv *grpc.Server, end func(error))
	// Kubelet is the name of the kubelet's own socket in the folder, and Register registers the
	// service with the kubelet over it. Both are empty where the kubelet finds the socket
	// itself.
	Kubelet  string
	Register func(context.Context, grpc.ClientConnInterface) error

	mu      sync.Mutex // guards problem
	problem string
}

// Problem returns why the kubelet does not have the service; empty when it does.
func (s *Service) Problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem
}

func (s *Service) setProblem(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if text != "" && text != s.problem {
		s.Folder.Log.Warn("not served to the kubelet", "service", s.Name, "err", err)
	}
	s.problem = text
}

// Run serves one kubelet after another until ctx ends, and then removes the socket. It waits for a
// kubelet that is not there.
func (s *Service) Run(ctx context.Context) {
	retry := firstRetry
	for ctx.Err() == nil {
		begun := time.Now()
		moved := s.Folder.changed.Next()
		now, absent := s.lookAtKubelet()
		err := absent
		if absent == nil {
			err = s.serveKubelet(ctx, now)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			continue // another kubelet is there, or this one has cleared its folder
		}
		s.setProblem(err)
		if time.Since(begun) > time.Minute {
			retry = firstRetry
		}
		if absent != nil {
			s.awaitChange(ctx, now, moved, nil)
			continue
		}
		s.awaitChange(ctx, now, moved, time.After(retry))
		retry = min(2*retry, lastRetry)
	}
}

// awaitChange waits until another kubelet is there than then, or until at fires.
func (s *Service) awaitChange(ctx context.Context, then file, moved <-chan struct{}, at <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-at:
			return
		case <-moved:
		}
		moved = s.Folder.changed.Next()
		if now, err := s.lookAtKubelet(); err == nil && now != then {
			return
		}
	}
}

// lookAtKubelet identifies the kubelet by its socket, where it has one.
func (s *Service) lookAtKubelet() (file, error) {
	if s.Register == nil {
		return file{}, nil
	}
	f, err := lookAt(filepath.Join(s.Folder.Dir, s.Kubelet))
	if err != nil {
		return f, fmt.Errorf("there is no kubelet yet: %w", err)
	}
	return f, nil
}

// serveKubelet serves one kubelet. It returns nil when another one is there, or when the
// socket was removed, as a kubelet does when it starts.
func (s *Service) serveKubelet(ctx context.Context, kubelet file) (err error) {
	path := filepath.Join(s.Folder.Dir, s.File)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // left by a culvertd that was killed
		return err
	}
	moved := s.Folder.changed.Next()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return err
	}
	if l, ok := listener.(*net.UnixListener); ok {
		l.SetUnlinkOnClose(false) // another process may have made the file by then
	}
	own, err := lookAt(path)
	if err = errors.Join(err, os.Chmod(path, 0o600)); err != nil {
		return errors.Join(err, listener.Close())
	}
	ended := make(chan error, 1)
	srv := grpc.NewServer()
	s.Add(srv, func(err error) {
		select {
		case ended <- err:
		default: // the first reason counts
		}
	})
	var g errgroup.Group
	g.Go(func() error {
		err := srv.Serve(listener)
		if errors.Is(err, grpc.ErrServerStopped) { // it ends before it began
			return nil
		}
		return err
	})
	defer func() {
		srv.Stop()
		err = errors.Join(err, g.Wait())
		if now, gone := lookAt(path); gone == nil && now == own {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	if err := s.registerService(ctx); err != nil {
		return err
	}
	s.setProblem(nil)
	return s.untilReplaced(ctx, kubelet, own, moved, ended)
}

// untilReplaced waits until a kubelet does not use the service any more. It returns nil if another
// kubelet is there or the service's own socket is gone, and otherwise the reason.
func (s *Service) untilReplaced(ctx context.Context, kubelet, own file, moved <-chan struct{}, ended <-chan error) error {
	for {
		var why error
		select {
		case <-ctx.Done():
			return nil
		case why = <-ended:
		case <-moved:
		}
		moved = s.Folder.changed.Next()
		now, err1 := s.lookAtKubelet()
		mine, err2 := lookAt(filepath.Join(s.Folder.Dir, s.File))
		if err1 != nil || err2 != nil || now != kubelet || mine != own {
			return nil //nolint:nilerr // a socket that cannot be read has gone
		}
		if why != nil {
			return why
		}
	}
}

// registerService registers the service with the kubelet, where the kubelet does not find it.
func (s *Service) registerService(ctx context.Context) error {
	if s.Register == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, registerBound)
	defer cancel()
	path := filepath.Join(s.Folder.Dir, s.Kubelet)
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := s.Register(ctx, conn); err != nil {
		return fmt.Errorf("register with the kubelet on %s: %w", path, err)
	}
	s.Folder.Log.Info("registered with the kubelet", "service", s.Name)
	return nil
}
