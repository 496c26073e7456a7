package device

// Phase is the part of a training step in which a Call runs.
type Phase uint8

// The phases of a step, in the order in which they come.
const (
	Init Phase = iota // initialisation (iteration 0), and the record of state at a window's start
	Fwd               // forward
	Rec               // forward again, recomputed for the backward
	Bwd               // backward
	Opt               // optimizer
	Load              // restoring a checkpoint
	phases
)

var phaseNames = [phases]string{"init", "fwd", "rec", "bwd", "opt", "load"}

// String is the name in traces and flags.
func (p Phase) String() string { return phaseNames[p] }

// ParsePhase is the inverse of Phase.String.
func ParsePhase(s string) (Phase, bool) {
	for p, name := range phaseNames {
		if s == name {
			return Phase(p), true
		}
	}
	return 0, false
}

// PhaseNames lists the phases as they are written in traces and flags.
func PhaseNames() []string { return phaseNames[:] }

// Kind is what a Call is. Its order follows the trace levels: a level records
// the kinds of the levels before it too.
type Kind uint8

// The kinds of Call.
const (
	Op         Kind = iota // arithmetic on tensors; the zero value, since most Calls are
	Metric                 // a number the run reports
	State                  // a tensor or position as it stands, at a window's start
	Collective             // a collective over ranks
	P2P                    // a send or a receive
	Draw                   // numbers drawn from a random stream
	Batch                  // samples dealt by the sampler
	Optim                  // an optimizer update
	Loading                // state restored from a checkpoint
	Recompute              // a recomputed activation beside the one it must equal
	Module                 // the boundary of a layer
	Inner                  // a part of a Call, named by its kernel
	kinds
)

var kindNames = [kinds]string{"op", "metric", "state", "collective", "p2p", "draw", "batch", "optim", "load", "recompute", "module", "kernel"}

// String is the name in traces.
func (k Kind) String() string { return kindNames[k] }

// Coord is where a rank stands on the grid of parallel axes.
type Coord struct {
	PP int `json:"pp"`
	DP int `json:"dp"`
	TP int `json:"tp"`
	CP int `json:"cp"`
	EP int `json:"ep"`
}

// ID names one execution of a Call. It is made of names and of the place in
// the run, never of counters, so that two traces align by equality.
type ID struct {
	Step, Micro int
	At          Coord
	Phase       Phase
	Path        string // module scopes and the label given at the call site, dot-separated
}

// join puts a label, which may hold dots itself (w1.dx), under a scope.
func join(scope, label string) string {
	if scope == "" {
		return label
	}
	return scope + "." + label
}
