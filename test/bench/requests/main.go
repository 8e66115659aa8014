// Command requests answers and makes requests over TCP, a new connection for each, in pods of a
// lab. Package lab/demo/requests describes its arguments and what it prints.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/culvert-net/culvert/lab/demo/requests"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "requests:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	work, err := requests.Parse(args)
	if err != nil {
		return err
	}
	switch w := work.(type) {
	case requests.Serve:
		return serve(w)
	case requests.Call:
		return call(w)
	case requests.Compare:
		return compare(w)
	}
	return showClock()
}

// serve answers until the process is ended, which a signal does at once.
func serve(s requests.Serve) error {
	l, err := (&net.ListenConfig{KeepAlive: -1}).Listen(context.Background(), "tcp", ":"+strconv.Itoa(s.Port))
	if err != nil {
		return err
	}
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n", len(s.Name)+1, s.Name)
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(limit))
			for lines := bufio.NewReader(c); ; {
				line, err := lines.ReadString('\n')
				if err != nil {
					return
				}
				if strings.TrimSpace(line) == "" {
					break
				}
			}
			_, _ = io.WriteString(c, answer)
		}()
	}
}

// limit bounds a request.
const limit = 10 * time.Second

// request makes one request.
func request(target string) (server string, err error) {
	c, err := dialer.Dial("tcp", target)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: requests\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	all, err := io.ReadAll(c)
	if err != nil {
		return "", err
	}
	_, body, whole := strings.Cut(string(all), "\r\n\r\n")
	if !whole {
		return "", fmt.Errorf("the answer is %q", all)
	}
	return strings.TrimSpace(body), nil
}

// mostOpen is how many requests may wait for their answer at one time.
const mostOpen = 64

// dialer sets no keepalive on connections that live for milliseconds.
var dialer = net.Dialer{Timeout: limit, KeepAlive: -1}

// call makes requests, and prints all results at the end. In a pod each line goes through the
// container runtime, the kubelet and the API server, on the processor that makes the requests.
func call(c requests.Call) error {
	var mu sync.Mutex // guards lines
	var lines bytes.Buffer
	out := json.NewEncoder(&lines)
	var all sync.WaitGroup
	slots := make(chan struct{}, mostOpen)
	due, end := time.Now(), time.Now().Add(c.For)
	for due.Before(end) {
		slots <- struct{}{}
		all.Add(1)
		go func() {
			defer all.Done()
			begun := time.Now()
			server, err := request(c.Target)
			<-slots
			r := requests.Request{Begun: begun.UnixNano(), Took: int64(time.Since(begun)), Server: server}
			if err != nil {
				r.Err = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			_ = out.Encode(r)
		}()
		if due = due.Add(time.Second / time.Duration(c.PerSecond)); time.Since(due) > time.Second {
			due = time.Now() // the machine is too slow: missed requests are left out
		}
		time.Sleep(time.Until(due))
	}
	all.Wait()
	_, err := lines.WriteTo(os.Stdout)
	return err
}

func compare(c requests.Compare) error {
	rates := make([][]float64, c.Rounds)
	for i := range rates {
		rates[i] = make([]float64, len(c.Targets))
		for j := range c.Targets {
			j = (i + j) % len(c.Targets) // the targets take turns to begin a round
			count, begun := 0, time.Now()
			for time.Since(begun) < c.For {
				if _, err := request(c.Targets[j]); err != nil {
					return err
				}
				count++
			}
			rates[i][j] = float64(count) / time.Since(begun).Seconds()
		}
	}
	return json.NewEncoder(os.Stdout).Encode(rates)
}

func showClock() error {
	for in := bufio.NewReader(os.Stdin); ; {
		if _, err := in.ReadString('\n'); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if _, err := fmt.Println(time.Now().UnixNano()); err != nil {
			return err
		}
	}
}
