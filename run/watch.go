package run

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/parallel"
	"firstbit/trace"
	"firstbit/train"
)

// Recorded is the run that a trace is of, as its run.json describes it.
func Recorded(t *trace.Trace) (Spec, error) {
	s := Spec{Recipe: t.Run.Recipe, Library: t.Run.Library, Plans: t.Run.Plans}
	for _, rank := range t.Ranks {
		if slices.ContainsFunc(rank.Records, func(r trace.Record) bool { return r.Phase == "load" }) {
			return s, fmt.Errorf("trace %s: its run continued from a checkpoint, which it does not name: give its flags by --a", t.Dir)
		}
	}
	bad := func(field string, err error) (Spec, error) {
		return Spec{}, fmt.Errorf("trace %s: run.json: %s: %w", t.Dir, field, err)
	}
	text, err := json.Marshal(t.Run.Config)
	if err != nil {
		return bad("config", err)
	}
	if err := json.Unmarshal(text, &s.Config); err != nil {
		return bad("config", err)
	}
	if s.Layout, err = parallel.ParseLayout(t.Run.Layout); err != nil {
		return bad("layout", err)
	}
	var ok bool
	if s.Schedule, ok = device.ParseSchedule(t.Run.Schedule); !ok || s.Schedule.Real {
		return bad("schedule", fmt.Errorf("%q: must be a seed: arrival by the machine's own races does not replay", t.Run.Schedule))
	}
	for _, f := range t.Run.Faults {
		s.Faults = append(s.Faults, f.Spec)
	}
	return s, nil
}

// Watch runs a Spec beside the metrics that a trace recorded, as long as they agree, and returns the first step that does not; 0: all do.
// Steps that the trace does not hold are not compared, and without any there is nothing to watch.
func Watch(s Spec, t *trace.Trace) (parts int, err error) {
	was := recorded(t)
	if len(was) == 0 || t.Ranks[0].Rank != 0 {
		return 0, fmt.Errorf("trace %s: holds no metrics of rank 0: nothing to watch", t.Dir)
	}
	stop := make(chan struct{})
	s.Digest, s.Interrupt = true, stop
	s.Each = func(r train.Result) error {
		if parts == 0 && was[r.Step] != nil && !agrees(r, was[r.Step]) {
			parts = r.Step
			close(stop)
		}
		return nil
	}
	o, err := Run(s)
	var interrupted *Interrupted
	switch {
	case errors.As(err, &interrupted):
		err = nil
	case err == nil:
		err = o.Missed
	}
	return parts, err
}

// PartsFrom is the first step of a run whose metrics are not those that a trace recorded; 0: all are that the trace holds.
func PartsFrom(steps []train.Result, t *trace.Trace) int {
	was := recorded(t)
	for _, r := range steps {
		if was[r.Step] != nil && !agrees(r, was[r.Step]) {
			return r.Step
		}
	}
	return 0
}

// recorded are the metrics of a trace's first rank by step and name: their bits, or of all state the digest.
func recorded(t *trace.Trace) map[int]map[string]string {
	was := map[int]map[string]string{}
	for _, rank := range t.Ranks[:min(1, len(t.Ranks))] {
		for i := range rank.Records {
			r := &rank.Records[i]
			if r.Kind != "metric" {
				continue
			}
			if was[r.Iteration] == nil {
				was[r.Iteration] = map[string]string{}
			}
			if r.Name == "state" && len(r.Out) == 1 {
				was[r.Iteration][r.Name] = r.Out[0].Digest
			} else {
				was[r.Iteration][r.Name] = r.Bits
			}
		}
	}
	return was
}

func agrees(r train.Result, was map[string]string) bool {
	for _, m := range r.Metrics {
		if bits, held := was[m.Name]; held && bits != m.Bits {
			return false
		}
	}
	digest, held := was["state"]
	return !held || digest == signed(r.State)
}

// signed is the digest under which a trace shows the fingerprint of all state.
func signed(state string) string {
	b, err := hex.DecodeString(state)
	x := device.NewTensor(lowp.INT32, 4)
	if err != nil || len(b) != 4*x.Len() {
		return ""
	}
	for i := range x.I32() {
		x.I32()[i] = int32(uint32(b[4*i]) | uint32(b[4*i+1])<<8 | uint32(b[4*i+2])<<16 | uint32(b[4*i+3])<<24)
	}
	d := x.Digest(nil)
	return hex.EncodeToString(d[:])
}
