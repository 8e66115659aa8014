//go:build go1.25

package cni

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// I8: each owed DEL has its turn, and the calls of other pods do not wait for those that hang. A hang
// ends when its bound does, on the clock of the test.
func TestI8EachOwedDELHasItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDelegates(t)
		owe(t, d.ledger, "fails", "stuck1", "stuck2", "works")
		del := func() time.Duration {
			begun := time.Now()
			if _, err := d.h.Run(t.Context(), callOf(api.CNIRequest{Command: cmdDel, ContainerID: "other", IfName: "net1"}), d.askStuck); err != nil {
				t.Error(err)
			}
			return time.Since(begun)
		}
		for _, tt := range []struct {
			took  time.Duration
			tried string
		}{
			{owedBound, "fails stuck1"}, {owedBound, "stuck2"}, {0, "works fails"}, {0, ""},
		} {
			if took := del(); took != tt.took || d.triedDELs() != tt.tried {
				t.Errorf("took %s and tried %s, want %s and %s", took, d.triedDELs(), tt.took, tt.tried)
			}
			d.calls = nil
		}
		slow := 0
		for range 360 { // a DEL every 10 s
			time.Sleep(10 * time.Second)
			if del() > 0 {
				slow++
			}
		}
		if turns := strings.Count(d.triedDELs(), "stuck2"); slow > 30 || turns < 6 {
			t.Errorf("of 360 DELs, %d waited; stuck2 had %d turns", slow, turns)
		}
		time.Sleep(lastDebtWait)
		waiting := make(chan time.Duration)
		go func() { waiting <- del() }()
		synctest.Wait()
		if took := del(); took > 0 {
			t.Errorf("a second DEL waited %s beside the one that runs owed DELs", took)
		}
		<-waiting
		_, owed, err := d.VFs.Delegations()
		if err != nil || len(owed) != 3 {
			t.Errorf("owed: %v, %v", owed, err)
		}
	})
}

// askStuck is ask for plugins of which those of the containers stuck hang until the call ends, and
// others fail.
func (d *delegates) askStuck(ctx context.Context, method string, params, result any) error {
	r := params.(api.PluginRequest) //nolint:forcetypeassert // as culvertd asks
	err := d.ask(ctx, method, params, result)
	switch {
	case strings.HasPrefix(r.Call.ContainerID, "stuck"):
		<-ctx.Done()
		return ctx.Err()
	case r.Call.ContainerID == "fails":
		return errors.New("no API server")
	}
	return err
}

// triedDELs returns the containers of the calls of plugins.
func (d *delegates) triedDELs() string {
	var out []string
	for _, c := range d.calls {
		out = append(out, strings.Fields(c)[2])
	}
	return strings.Join(out, " ")
}

// The mode of whereabouts networks is asked of the API server, which may hang for hours. Calls wait only
// while no answer is known: an ADD until the question ends, a DEL for modeBound.
func TestI7HangingAPIServerDelaysNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 10 * time.Second // of a question
		hangs := true
		serves := WhereaboutsAuto.Serves(func(context.Context, string) (bool, error) {
			if !hangs {
				return true, nil
			}
			time.Sleep(bound)
			return false, vf.ErrNotReady
		})
		d := newDelegates(t)
		d.h.ServesWhereabouts = serves
		took := func(command string, fails bool) time.Duration {
			begun := time.Now()
			const config = `{"cniVersion":"1.0.0","name":"n","type":"sriov","ipam":{"type":"whereabouts","range":"10.5.0.0/24"}}`
			if _, err := d.call(t, command, "c1", config); (err != nil) != fails {
				t.Errorf("%s: %v", command, err)
			}
			return time.Since(begun)
		}
		if del, add, again := took(cmdDel, false), took(cmdAdd, true), took(cmdAdd, true); del != modeBound || add != bound-modeBound || again != 0 {
			t.Errorf("nothing is known: the DEL took %s, an ADD %s, the next one %s", del, add, again)
		}
		hangs = false
		time.Sleep(whereaboutsRetry)
		if own, err := serves(t.Context()); own || err != nil {
			t.Errorf("the API server answers: %v, %v", own, err)
		}
		hangs = true
		for range 10 { // the answer counts on
			time.Sleep(whereaboutsLook)
			if took := took(cmdDel, false); took > 0 {
				t.Errorf("a DEL took %s although the mode is known", took)
			}
			begun := time.Now()
			if own, err := serves(t.Context()); own || err != nil || time.Since(begun) > 0 {
				t.Errorf("%v, %v after %s", own, err, time.Since(begun))
			}
		}
		time.Sleep(bound)
	})
}
