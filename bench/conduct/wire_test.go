package conduct

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/kernel/netns"
)

// wire joins two TAP interfaces, one in each namespace of a world. The test carries the frames from
// one to the other. So delay, loss and content of what passes are known, also on kernels without netem.
type wiretap struct {
	delay time.Duration // each way
	drops func(datagram) bool
	taps  [2]*os.File

	mu    sync.Mutex // guards what follows
	tally tallyOfWire
	begun map[tripOf]time.Time // of questions that have no answer yet
}

// tripOf identifies a question, or the connection of one.
type tripOf struct {
	port     uint16
	sequence uint64
	tcp      bool
}

// tallyOfWire has the counts of a wire, since they were last taken. Index 0 is of frames from the first end.
type tallyOfWire struct {
	datagrams, dropped [2]int
	ports              map[uint16]bool // of the first end, from which datagrams came
	sizes              map[int]int     // of datagrams
	classes            [2]map[int]int  // how many datagrams and TCP segments with payload have each DSCP
	trips              []time.Duration // from a question to its answer, or from a SYN to the FIN of the answer
}

// datagram is a frame of UDP or TCP over IPv4.
type datagram struct {
	from                 int // the end that sent it
	tcp                  bool
	syn, fin             bool
	dscp, payload        int
	source, destination  uint16
	sequence             uint64 // of Culvert's questions and datagrams
	hasSequence, isFrame bool
}

// newWiredWorld is a world whose only link is a wire, 10.98.0.1 to 10.98.0.2.
func newWiredWorld(t *testing.T, delay time.Duration, drops func(datagram) bool) (*world, *wiretap) {
	t.Helper()
	w := newNamespaces(t)
	x := &wiretap{delay: delay, drops: drops, begun: map[tripOf]time.Time{}}
	x.takeTally()
	for i, name := range []string{"a0", "a1"} {
		err := netns.Run("/run/netns/"+w.netns[i], func() (err error) {
			x.taps[i], err = openTap(name)
			return err
		})
		if err != nil {
			t.Skip("no TAP interface here: ", err)
		}
	}
	var g errgroup.Group
	for i := range x.taps {
		g.Go(func() error { return x.carryFrames(i) })
	}
	t.Cleanup(func() {
		for _, tap := range x.taps {
			tap.Close()
		}
		if err := g.Wait(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	w.setUp(t, "a", "10.98.0.")
	w.openAll(t)
	return w, x
}

// openTap makes a TAP interface in the network namespace of the calling thread. The interface ends with
// the file.
func openTap(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// passing is a frame on its way.
type passing struct {
	frame []byte
	datagram
	came time.Time
}

// carryFrames carries the frames of one end to the other until a TAP is closed.
func (x *wiretap) carryFrames(from int) error {
	const room, most = 4096, 2048
	queue := make(chan passing, room)
	var g errgroup.Group
	g.Go(func() error {
		for p := range queue {
			time.Sleep(time.Until(p.came.Add(x.delay)))
			if _, err := x.taps[1-from].Write(p.frame); err != nil && errors.Is(err, os.ErrClosed) {
				continue // the queue is emptied
			}
			x.notePassed(p)
		}
		return nil
	})
	for {
		frame := make([]byte, most)
		n, err := x.taps[from].Read(frame)
		if err != nil {
			close(queue)
			return errors.Join(err, g.Wait())
		}
		p := passing{frame[:n], parseDatagram(frame[:n], from), time.Now()}
		if !x.noteCame(p) {
			queue <- p
		}
	}
}

// parseDatagram reads a frame's headers.
func parseDatagram(b []byte, from int) (d datagram) {
	const ether = 14
	d.from = from
	if len(b) < ether+20 || binary.BigEndian.Uint16(b[12:]) != unix.ETH_P_IP {
		return d
	}
	ip := b[ether:]
	header := int(ip[0]&15) * 4
	length := int(binary.BigEndian.Uint16(ip[2:]))
	if d.tcp = ip[9] == unix.IPPROTO_TCP; !d.tcp && ip[9] != unix.IPPROTO_UDP || len(ip) < max(length, header+8) {
		return d
	}
	l4 := ip[header:length]
	d.isFrame, d.dscp = true, int(ip[1]>>2)
	d.source, d.destination = binary.BigEndian.Uint16(l4), binary.BigEndian.Uint16(l4[2:])
	if d.tcp {
		const fin, syn, ack = 1, 2, 16
		d.syn, d.fin = l4[13]&(syn|ack) == syn, l4[13]&fin != 0
		d.payload = len(l4) - int(l4[12]>>4)*4
		return d
	}
	d.payload = len(l4) - 8
	if d.payload >= 16 { // as package engine writes them
		d.hasSequence, d.sequence = true, binary.BigEndian.Uint64(l4[8+8:])
	}
	return d
}

// port returns the port of the first end.
func (d datagram) port() uint16 {
	if d.from == 0 {
		return d.source
	}
	return d.destination
}

// noteCame counts a frame that came, and reports whether it is dropped.
func (x *wiretap) noteCame(p passing) (dropped bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := &x.tally
	if !p.isFrame {
		return false
	}
	if p.payload > 0 && p.payload != ticketBytes {
		c.classes[p.from][p.dscp]++
	}
	switch {
	case p.tcp && p.syn:
		x.tripBegins(p)
	case !p.tcp && p.hasSequence && p.payload != ticketBytes:
		c.datagrams[p.from]++
		c.ports[p.port()] = true
		c.sizes[p.payload]++
		x.tripBegins(p)
	}
	if x.drops == nil || !x.drops(p.datagram) {
		return false
	}
	c.dropped[p.from]++
	return true
}

// ticketBytes is the size of the datagrams by which the engine opens a stream.
const ticketBytes = 46

// tripBegins notes when a question came.
func (x *wiretap) tripBegins(p passing) {
	if p.from == 0 {
		x.begun[tripOf{p.port(), p.sequence, p.tcp}] = p.came
	}
}

// notePassed ends the trip of a question whose answer, or the end of whose connection, was passed on.
func (x *wiretap) notePassed(p passing) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p.from == 0 || !p.isFrame || p.tcp && !p.fin || !p.tcp && !p.hasSequence {
		return
	}
	key := tripOf{p.port(), p.sequence, p.tcp}
	if at, is := x.begun[key]; is {
		x.tally.trips = append(x.tally.trips, time.Since(at))
		delete(x.begun, key)
	}
}

// takeTally returns the counts and begins new ones.
func (x *wiretap) takeTally() tallyOfWire {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.tally
	x.tally = tallyOfWire{ports: map[uint16]bool{}, sizes: map[int]int{}, classes: [2]map[int]int{{}, {}}}
	return t
}

// tripMicros returns the median of the trips in microseconds.
func (t tallyOfWire) tripMicros() float64 {
	var all []float64
	for _, d := range t.trips {
		all = append(all, float64(d.Microseconds()))
	}
	return bench.Median(all)
}
