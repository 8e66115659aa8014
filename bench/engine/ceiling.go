package engine

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench"
)

// Ceiling measures a workload with no network: both ends on this machine, over the
// loopback interface of a network namespace that it makes and that is gone with it. Of w it
// leaves out Rate and Reverse. A figure that is near the one it returns says what the
// generator can do, and not what the path can.
//
// Both ends share this machine's processors here. On two machines each has its
// own, so that the generator may reach more there, and not less. It takes root.
func Ceiling(ctx context.Context, w bench.Workload) (bench.Run, error) {
	w.Rate, w.Reverse = 0, false
	var run bench.Run
	err := onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w: run as root", err)
		}
		alone, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return fmt.Errorf("the network namespace: %w", err)
		}
		defer alone.Close()
		run, err = overLoopback(ctx, w, alone)
		return err
	})
	if err != nil {
		return bench.Run{}, fmt.Errorf("the generator's ceiling: %w", err)
	}
	return run, nil
}

// overLoopback is called in the namespace.
func overLoopback(ctx context.Context, w bench.Workload, alone *os.File) (run bench.Run, err error) {
	if err := raiseLoopback(); err != nil {
		return run, err
	}
	here := Local{Address: netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	server, err := Listen(ctx, here, 0)
	if err != nil {
		return run, err
	}
	defer server.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return onOwnThread(func() error {
			if err := unix.Setns(int(alone.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter the network namespace: %w", err)
			}
			return server.Serve(ctx, Marks{})
		})
	})
	run, err = Measure(ctx, w, here, server.Addr(), Marks{})
	if err != nil {
		server.Close() // it may wait for a client that will not come
	}
	return run, errors.Join(err, g.Wait())
}

// raiseLoopback sets lo up.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}

// onOwnThread calls f on a thread that ends with it, since it changes its namespace.
// Go cannot end the main thread, so that f never gets that one.
func onOwnThread(f func() error) error {
	done := make(chan error)
	// The thread of a locked goroutine ends with it; errgroup's would go on.
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			done <- onOwnThread(f) // holds the main thread, so another one is taken
			runtime.UnlockOSThread()
			return
		}
		done <- f()
	}()
	return <-done
}
