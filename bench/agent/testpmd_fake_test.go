package agent

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// testpmdName is the name by which this test's program is a testpmd, and testpmdDay the variable with
// the kind of day that it has.
const (
	testpmdName = "dpdk-testpmd"
	testpmdDay  = "CULVERT_TEST_TESTPMD"
)

// fakeTestpmd is a testpmd with one port, as DPDK 24.11 talks: each command is followed by a prompt,
// the telemetry socket answers with JSON, and the end of the input ends it. From "start" on the port
// counts ten frames in each millisecond.
func fakeTestpmd() int {
	f := &testpmdFake{day: os.Getenv(testpmdDay)}
	switch f.day {
	case "no driver":
		fmt.Println("testpmd: No probed ethernet devices")
		fmt.Fprintln(os.Stderr, "EAL: Error - exiting with code: 1")
		return 1
	case "no prompt":
		fmt.Println("EAL: Detected CPU lcores: 1")
		time.Sleep(time.Hour)
	}
	for _, arg := range os.Args {
		if mode, ok := strings.CutPrefix(arg, "--forward-mode="); ok {
			f.mode = mode
		}
	}
	dir := filepath.Join(os.Getenv("RUNTIME_DIRECTORY"), "dpdk", testpmdPrefix)
	l, err := net.Listen("unixpacket", filepath.Join(makeFolder(dir), "dpdk_telemetry.v2"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.answer(c)
		}
	}()
	fmt.Print("Interactive-mode selected\ntestpmd> ")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if f.do(in.Text()) {
			fmt.Print("testpmd> ")
		}
	}
	fmt.Println("Bye...")
	return 0
}

func makeFolder(dir string) string {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err)
	}
	return dir
}

type testpmdFake struct {
	day, mode string
	mu        sync.Mutex
	begun     time.Time
	counted   time.Duration // at "stop"
	stopped   bool
}

// do does a command, and reports whether it ends.
func (f *testpmdFake) do(command string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case command == "start":
		f.begun = time.Now()
		if f.day == "dies" {
			time.AfterFunc(300*time.Millisecond, func() {
				fmt.Fprintln(os.Stderr, "Segmentation fault")
				os.Exit(139)
			})
		}
	case command == "stop" && f.day == "hangs":
		return false
	case command == "stop":
		f.counted, f.stopped = time.Since(f.begun), true
	}
	return true
}

func (f *testpmdFake) answer(c net.Conn) {
	defer c.Close()
	say := func(s string) { _, _ = c.Write([]byte(s)) }
	say(`{"version":"DPDK 24.11.8","pid":1,"max_output_len":16384}`)
	buffer := make([]byte, 1024)
	for {
		n, err := c.Read(buffer)
		if err != nil {
			return
		}
		switch command := string(buffer[:n]); {
		case f.day == "garbage" && strings.HasPrefix(command, statsCommand):
			say("\x00Segmentation")
		case command == "/ethdev/link_status,0":
			status := "UP"
			if f.day == "no link" {
				status = "DOWN"
			}
			say(fmt.Sprintf(`{"/ethdev/link_status":{"status":%q,"speed":"1 Gbps"}}`, status))
		case command == "/ethdev/info,0":
			say(`{"/ethdev/info":{"name":"0000:01:11.4","mac_addr":"02:00:00:00:00:0A"}}`)
		case command == "/ethdev/stats,0":
			say(fmt.Sprintf(`{"/ethdev/stats":%s}`, f.stats()))
		default:
			say("{}")
		}
	}
}

// stats counts from a number above 0, since a VF's counters go on over a reset.
func (f *testpmdFake) stats() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var n int64
	switch {
	case f.day == "silent" || f.begun.IsZero():
	case f.stopped:
		n = 10 * f.counted.Milliseconds()
	default:
		n = 10 * time.Since(f.begun).Milliseconds()
	}
	received, sent := int64(1000), int64(2000)
	if slices.Contains([]string{"rxonly", "mac"}, f.mode) {
		received += n
	}
	if slices.Contains([]string{"txonly", "mac"}, f.mode) {
		sent += n
	}
	return fmt.Sprintf(`{"ipackets":%d,"opackets":%d,"ibytes":%d,"obytes":%d,"imissed":3,"ierrors":0,"oerrors":0,"rx_nombuf":0}`, received, sent, 68*received, 68*sent)
}
