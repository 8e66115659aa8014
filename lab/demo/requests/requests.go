// Package requests makes requests between the pods of a lab's cluster, a new TCP connection for
// each, and reports their outcome. The program test/bench/requests makes and answers them; this
// package has its command lines ([Serve], [Call], [Compare], [Clock]), builds it ([Build]), puts
// it onto the nodes and runs it in pods ([Site]). Package demo and test/kubernetes call it.
package requests

import (
	"fmt"
	"strconv"
	"time"
)

// Words are the first arguments of the program.
const (
	serveWord   = "serve"
	callWord    = "call"
	compareWord = "compare"
	clockWord   = "clock"
)

// Serve answers each HTTP request on a port with a name. It ends at once when it is asked to.
type Serve struct {
	Port int
	Name string
}

// Call makes requests at even intervals, whether earlier ones are answered or not, and prints a
// [Request] of each as a line of JSON. On a machine that is too slow it makes fewer.
type Call struct {
	Target    string // host:port
	PerSecond int
	For       time.Duration
}

// Compare makes requests to the targets in turns, one after the other for the time of a round,
// and prints requests a second by round and target as JSON.
type Compare struct {
	Targets []string
	Rounds  int
	For     time.Duration
}

// Clock prints the time, in nanoseconds since 1970, for each line that it reads.
type Clock struct{}

// Request is one connection, from before it is opened until the answer is read.
type Request struct {
	Begun  int64  `json:"begun"` // nanoseconds since 1970, by the clock of the node
	Took   int64  `json:"took"`  // nanoseconds
	Server string `json:"server,omitempty"`
	Err    string `json:"err,omitempty"`
}

// Args returns the program's arguments.
func (s Serve) Args() []string { return []string{serveWord, strconv.Itoa(s.Port), s.Name} }

// Args returns the program's arguments.
func (c Call) Args() []string {
	return []string{callWord, c.Target, strconv.Itoa(c.PerSecond), c.For.String()}
}

// Args returns the program's arguments.
func (c Compare) Args() []string {
	return append([]string{compareWord, strconv.Itoa(c.Rounds), c.For.String()}, c.Targets...)
}

// Args returns the program's arguments.
func (Clock) Args() []string { return []string{clockWord} }

// Parse is the inverse of Args: it returns a [Serve], [Call], [Compare] or [Clock].
func Parse(args []string) (any, error) {
	word := ""
	if len(args) > 0 {
		word, args = args[0], args[1:]
	}
	switch {
	case word == serveWord && len(args) == 2:
		port, err := strconv.Atoi(args[0])
		return Serve{port, args[1]}, err
	case word == callWord && len(args) == 3:
		perSecond, err := strconv.Atoi(args[1])
		if err != nil || perSecond < 1 {
			return nil, fmt.Errorf("call: %q requests a second: want a number above 0", args[1])
		}
		d, err := time.ParseDuration(args[2])
		return Call{args[0], perSecond, d}, err
	case word == compareWord && len(args) > 2:
		rounds, err := strconv.Atoi(args[0])
		if err != nil {
			return nil, fmt.Errorf("compare: %q rounds: want a number", args[0])
		}
		d, err := time.ParseDuration(args[1])
		return Compare{args[2:], rounds, d}, err
	case word == clockWord && len(args) == 0:
		return Clock{}, nil
	}
	return nil, fmt.Errorf("requests %q has %d arguments: use one of\n"+
		"  serve PORT NAME\n  call HOST:PORT PER-SECOND TIME\n  compare ROUNDS TIME HOST:PORT...\n  clock", word, len(args))
}

// Log is the output of a [Call], with times by this host's clock.
type Log []Request

// At returns when a request began.
func (r Request) At() time.Time { return time.Unix(0, r.Begun) }

// End returns when the answer was read, or the error came.
func (r Request) End() time.Time { return r.At().Add(time.Duration(r.Took)) }

// Between returns the requests that began in a time.
func (l Log) Between(from, until time.Time) (out Log) {
	for _, r := range l {
		if at := r.At(); !at.Before(from) && at.Before(until) {
			out = append(out, r)
		}
	}
	return out
}

// After returns the requests that began at a time or later.
func (l Log) After(from time.Time) Log { return l.Between(from, time.Unix(1<<40, 0)) }

// Failed returns the requests without an answer.
func (l Log) Failed() (out Log) {
	for _, r := range l {
		if r.Err != "" {
			out = append(out, r)
		}
	}
	return out
}

// Servers returns the number of answers of each server.
func (l Log) Servers() map[string]int {
	out := map[string]int{}
	for _, r := range l {
		if r.Err == "" {
			out[r.Server]++
		}
	}
	return out
}

// PerSecond returns how many requests a second began, over the whole log.
func (l Log) PerSecond() float64 {
	if len(l) < 2 {
		return 0
	}
	first, last := l[0].Begun, l[0].Begun
	for _, r := range l {
		first, last = min(first, r.Begun), max(last, r.Begun)
	}
	return float64(len(l)-1) / time.Duration(last-first).Seconds()
}

// LastTo returns when the last request began that a server answered; zero where there is none.
func (l Log) LastTo(server string) (last time.Time) {
	for _, r := range l {
		if at := r.At(); r.Server == server && r.Err == "" && at.After(last) {
			last = at
		}
	}
	return last
}

// Offset returns how far another clock is ahead of this one, by asking it some times: half a round
// trip is the error of an answer, so that the quickest answer counts.
func Offset(times int, now func() time.Time, ask func() (time.Time, error)) (offset, within time.Duration, err error) {
	within = time.Hour
	for range times {
		before := now()
		theirs, err := ask()
		if err != nil {
			return 0, 0, err
		}
		trip := now().Sub(before)
		if trip/2 < within {
			offset, within = theirs.Sub(before.Add(trip/2)), trip/2
		}
	}
	return offset, within, nil
}
