// Package state says what a piece of a run's state is: its name, what it serves, and where it lies in the whole that all ranks have.
//
// Trainers list such pieces with their tensors, traces and checkpoints carry them, and all else reads them there: nothing takes names
// apart.
package state

// Role says what a piece of state serves.
type Role string

// The roles.
const (
	Weight       Role = "weight"        // of a parameter, as kernels read it
	Master       Role = "master"        // the parameter in full precision, where Weight is rounded from it
	FirstMoment  Role = "first-moment"  // of a parameter's gradient, as AdamW has it
	SecondMoment Role = "second-moment" // the same
	Gradient     Role = "gradient"      // of a parameter, of the last step
	Copy         Role = "copy"          // of a weight, quantised: codes, scales, or the amax above these
	RouterBias   Role = "router-bias"   // by which a router chooses experts
	RouterTokens Role = "router-tokens" // how many tokens of the last step chose each expert
	AmaxHistory  Role = "amax-history"  // of delayed scaling: the largest magnitudes of earlier steps
	Scale        Role = "scale"         // of delayed scaling: what the next step divides by
	RandomStream Role = "random-stream" // the state of a random number generator
	Iterator     Role = "iterator"      // how many samples the data iterator has given
	Position     Role = "position"      // in the schedule of the learning rate: how many steps were taken
	LossScale    Role = "loss-scale"    // of fp16: the scale, and what decides when it moves
	Counter      Role = "counter"       // of steps, or of updates
)

// affixes are what stands before and behind the owner in the name of a state of a role; roles of which an owner has one have a row.
var affixes = map[Role][2]string{
	Weight:       {},
	Master:       {"", ".master"},
	FirstMoment:  {"", ".m"},
	SecondMoment: {"", ".v"},
	Gradient:     {"", ".grad"},
	RouterBias:   {"", ".bias"},
	RouterTokens: {"", ".tokens"},
	AmaxHistory:  {"", ".history"},
	Scale:        {"", ".scale"},
	RandomStream: {"rng.", ""},
}

// Decides tells whether the next step depends on such state, beyond what follows from other state and from the number of the step.
func (r Role) Decides() bool { return r != Gradient && r != Copy && r != Counter }

// Shown tells whether traces show such state where they begin: what decides the next step, and what follows from it and may do so wrongly.
func (r Role) Shown() bool { return r.Decides() || r == Copy }

// Saved tells whether a checkpoint carries such state.
func (r Role) Saved() bool { return r.Decides() || r == Counter }

// Sharded tells whether a distributed optimizer gives each rank a piece of such state, though the rank has more of the parameter.
func (r Role) Sharded() bool {
	return r == Master || r == FirstMoment || r == SecondMoment || r == Gradient
}

// Item is a piece of state.
type Item struct {
	Name  string // of the whole: ranks that have other pieces of it call them the same
	Role  Role
	Of    string // the parameter, router, product or random stream that it belongs to; empty: the run
	Place Place  // of a Copy: that of the weight, from which where codes and scales lie follows
}

// New is a piece of the owner's one state of a role.
func New(of string, r Role, p Place) Item {
	a, ok := affixes[r]
	if !ok {
		panic("state: of this role an owner has several states, or they have none: each has a name of its own")
	}
	return Item{a[0] + of + a[1], r, of, p}
}
