package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/bench/evidence"
	"github.com/culvert-net/culvert/internal/excerpt"
)

// pktgenFiles are the files of the kernel's packet generator, of one network namespace
// (Documentation/networking/pktgen.rst).
type pktgenFiles interface {
	readFile(name string) (string, error)
	writeFile(name, command string) error
}

// pktgenFolder is the folder of pktgen's files: proc/net/pktgen.
type pktgenFolder string

func (f pktgenFolder) readFile(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(string(f), name))
	return string(text), err
}

func (f pktgenFolder) writeFile(name, command string) error {
	file, err := os.OpenFile(filepath.Join(string(f), name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(command + "\n")
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("pktgen: %s: %s: %w", name, command, err)
	}
	return nil
}

func (a *agent) pktgenFolder() pktgenFolder {
	return pktgenFolder(filepath.Join("/", a.Reader.Root, "proc/net/pktgen"))
}

var pktgenSays = regexp.MustCompile(`Version: (\d+(?:\.\d+)+)`)

func (a *agent) pktgenVersion(context.Context) (string, error) {
	said, err := a.pktgenFolder().readFile("pgctrl")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New("the kernel's packet generator is not loaded here: modprobe pktgen, where the kernel has it")
	case errors.Is(err, fs.ErrPermission):
		return "", errors.New("the kernel's packet generator is root's: run the agent as root")
	case err != nil:
		return "", err
	}
	if m := pktgenSays.FindStringSubmatch(said); m != nil {
		return m[1], nil
	}
	return "", fmt.Errorf("ask pktgen for its version: it says %s", excerpt.QuoteOutput(said))
}

// pktgenSink is the half that receives. It counts the frames on its interface, together with all
// other frames that arrive there.
type pktgenSink struct {
	Task
	reader evidence.Reader
	mac    string
	first  bench.Counters
}

func (a *agent) pktgenReceive(_ context.Context, t Task, _ string) (half, error) {
	i, err := net.InterfaceByName(t.Interface)
	if err != nil {
		return nil, fmt.Errorf("look for interface %q: %w", t.Interface, err)
	}
	mac := cmp.Or(i.HardwareAddr.String(), "00:00:00:00:00:00") // Go shows the loopback's as none
	first, err := a.Reader.Counters(t.Interface)
	return &pktgenSink{t, a.Reader, mac, first}, err
}

func (s *pktgenSink) describeReady() Ready { return Ready{Engine: engine.Pktgen, MAC: s.mac} }
func (s *pktgenSink) close() error         { return nil }

func (s *pktgenSink) carryTraffic(ctx context.Context, m marks) (bench.Run, error) {
	const some = 64 // frames: more than arrive without pktgen
	begun := func() (bool, error) {
		now, err := s.reader.Counters(s.Interface)
		return now.RxPackets >= s.first.RxPackets+some, err
	}
	var counted [2]bench.Counters
	var errs [2]error
	var at [2]time.Time
	count := func(i int) {
		counted[i], errs[i] = s.reader.Counters(s.Interface)
		at[i] = time.Now()
	}
	begin, end := m.begin, m.end
	m.begin = func() { begin(); count(0) }
	m.end = func() { count(1); end() }
	none := fmt.Errorf("no frames came to %s in %s: is the MAC address %s that of the next hop?", s.Interface, patience, s.mac)
	void, err := callTimed(ctx, s.Workload, failAfter(patience, none, begun), nil, m)
	if err := errors.Join(err, errs[0], errs[1]); err != nil {
		return bench.Run{}, err
	}
	if counted[1].RxPackets < counted[0].RxPackets {
		return bench.Run{}, fmt.Errorf("rx_packets of %s fell in the window", s.Interface)
	}
	packets, took := counted[1].RxPackets-counted[0].RxPackets, at[1].Sub(at[0]).Seconds()
	bytes := packets * uint64(frameSize(s.Workload))
	return bench.Run{Void: void, Seconds: took, Packets: packets, Bytes: bytes, PPS: float64(packets) / took, Gbps: float64(bytes) * 8 / took / 1e9}, nil
}

// frameSize returns the size of a frame without its checksum. Ethernet's least is 60.
func frameSize(w bench.Workload) int { return max(60, w.Size) }

// pktgen is the half that sends.
type pktgen struct {
	files   pktgenFiles
	w       bench.Workload
	threads []string // kpktgend_0 and on
	devices []string // their devices
	ended   chan struct{}
	err     error // of "start", once ended
}

func (a *agent) pktgenSend(_ context.Context, t Task, to Ready) (half, error) {
	mac, err := net.ParseMAC(to.MAC)
	if err != nil || len(mac) != 6 {
		return nil, fmt.Errorf("the receiver gives %s as its MAC address, which is none: use one version of culvert at both ends", excerpt.QuoteOutput(to.MAC))
	}
	to.MAC = mac.String()
	if least := engine.LeastPktgenFrame(t.To.Is6()); frameSize(t.Workload) < least {
		return nil, fmt.Errorf("size %d of a frame: pktgen sends %d bytes at least over IPv6", t.Workload.Size, least)
	}
	return startPktgen(a.pktgenFolder(), t, to)
}

// startPktgen sets up a device for each thread and starts them. pktgen must have no other device.
func startPktgen(files pktgenFiles, t Task, to Ready) (_ half, err error) {
	p := &pktgen{files: files, w: t.Workload, ended: make(chan struct{})}
	for i := range max(1, t.Workload.Streams) {
		thread := fmt.Sprintf("kpktgend_%d", i)
		said, err := files.readFile(thread)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("pktgen has %d threads, one for each processor, and %d are wanted", i, t.Workload.Streams)
		}
		if err != nil {
			return nil, err
		}
		if used := pktgenDevices(said); used != "" {
			return nil, fmt.Errorf("pktgen is in use: %s has %s: stop it, and write rem_device_all to /proc/net/pktgen/%s", thread, used, thread)
		}
		p.threads, p.devices = append(p.threads, thread), append(p.devices, fmt.Sprintf("%s@%d", t.Interface, i))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.removeDevices())
		}
	}()
	for i, thread := range p.threads {
		if err := files.writeFile(thread, "add_device "+p.devices[i]); err != nil {
			return nil, err
		}
		for _, command := range pktgenCommands(t, to, len(p.threads)) {
			if err := files.writeFile(p.devices[i], command); err != nil {
				return nil, err
			}
		}
	}
	go func() { // "start" returns when all threads have stopped
		p.err = files.writeFile("pgctrl", "start")
		close(p.ended)
	}()
	return p, nil
}

// pktgenDevices returns the devices of a thread, which its file lists after "Running:" and
// "Stopped:".
func pktgenDevices(said string) string {
	var all []string
	for line := range strings.Lines(said) {
		for _, head := range []string{"Running:", "Stopped:"} {
			if rest, ok := strings.CutPrefix(line, head); ok {
				all = append(all, strings.Fields(rest)...)
			}
		}
	}
	return strings.Join(all, " ")
}

// pktgenCommands set up a device. clone_skb stays 0, since virtual interfaces change the packets
// that they are given.
func pktgenCommands(t Task, to Ready, threads int) []string {
	w := t.Workload
	six := ""
	if t.To.Is6() {
		six = "6"
	}
	all := []string{"count 0", "clone_skb 0", fmt.Sprintf("pkt_size %d", frameSize(w)), "dst_mac " + to.MAC, fmt.Sprintf("dst%s %s", six, t.To), "flag QUEUE_MAP_CPU"}
	last := t.From
	for range w.Sources - 1 {
		last = last.Next()
	}
	switch {
	case !t.From.IsValid():
	case six != "":
		all = append(all, "src6 "+t.From.String())
	default:
		all = append(all, "src_min "+t.From.String(), "src_max "+last.String())
	}
	if w.Flows > 1 {
		const first = 1024
		all = append(all, fmt.Sprintf("udp_src_min %d", first), fmt.Sprintf("udp_src_max %d", min(first+w.Flows-1, 1<<16-1)))
	}
	if w.MACs > 1 {
		all = append(all, fmt.Sprintf("src_mac_count %d", w.MACs))
	}
	if w.Rate > 0 {
		all = append(all, fmt.Sprintf("ratep %.0f", max(1, w.Rate/float64(threads))))
	}
	return all
}

var pktgenCurrent = regexp.MustCompile(`pkts-sofar: (\d+)\s+errors: (\d+)`)

// parsePktgen reads how many frames a device has sent.
func parsePktgen(said string) (uint64, error) {
	m := pktgenCurrent.FindStringSubmatch(said)
	if m == nil {
		return 0, fmt.Errorf("read pktgen's device: no pkts-sofar in %s", excerpt.QuoteOutput(said))
	}
	return strconv.ParseUint(m[1], 10, 64)
}

// countSent sums what all devices have sent.
func (p *pktgen) countSent() (uint64, error) {
	var sum uint64
	for _, d := range p.devices {
		said, err := p.files.readFile(d)
		if err != nil {
			return 0, err
		}
		n, err := parsePktgen(said)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func (p *pktgen) describeReady() Ready { return Ready{} }

func (p *pktgen) carryTraffic(ctx context.Context, m marks) (bench.Run, error) {
	var counted [2]uint64
	var errs [2]error
	var at [2]time.Time
	count := func(i int) {
		counted[i], errs[i] = p.countSent()
		at[i] = time.Now()
	}
	begin, end := m.begin, m.end
	m.begin = func() { begin(); count(0) }
	m.end = func() { count(1); end() }
	begun := func() (bool, error) {
		n, err := p.countSent()
		return n > 0, err
	}
	none := fmt.Errorf("pktgen has sent nothing in %s: is the interface up?", patience)
	void, err := callTimed(ctx, p.w, failAfter(patience, none, begun), p.ended, m)
	if err != nil {
		return bench.Run{}, errors.Join(err, p.close())
	}
	// The receiver's window may close later.
	if err := waitFor(ctx, time.Second); err != nil {
		return bench.Run{}, err
	}
	all, err := p.stopThreads()
	if err := errors.Join(errs[0], errs[1], err, p.close(), p.err); err != nil {
		return bench.Run{}, err
	}
	if counted[1] <= counted[0] && void == "" {
		return bench.Run{}, errors.New("pktgen has sent nothing in the window: is the interface up?")
	}
	return bench.Run{Void: void, Sent: counted[1] - counted[0], SentSeconds: at[1].Sub(at[0]).Seconds(), Totals: bench.Totals{Sent: all}}, nil
}

// stopThreads stops the threads, and returns how many frames they sent from first to last.
func (p *pktgen) stopThreads() (all uint64, err error) {
	select {
	case <-p.ended:
	default:
		if err := p.files.writeFile("pgctrl", "stop"); err != nil {
			return 0, err
		}
		<-p.ended
	}
	return p.countSent()
}

// close stops the threads and removes their devices. An agent that is killed with -9 leaves them
// running.
func (p *pktgen) close() error {
	select {
	case <-p.ended:
	default:
		if err := p.files.writeFile("pgctrl", "stop"); err != nil {
			return err
		}
		<-p.ended
	}
	return p.removeDevices()
}

func (p *pktgen) removeDevices() error {
	var errs []error
	for _, thread := range slices.Backward(p.threads) {
		errs = append(errs, p.files.writeFile(thread, "rem_device_all"))
	}
	return errors.Join(errs...)
}
