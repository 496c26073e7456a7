package experiments

import (
	"slices"
	"strings"
)

// Reference is what Megatron Core's report on bitwise-deterministic pretraining (Megatron-LM discussion #7497, September 2026) says of a cause, in its
// own words: a row of its table of common sources of nondeterminism, a case of its false alarms, or its example of a kernel.
type Reference struct {
	Section  string `json:"section"` // of the report
	Symptom  string `json:"symptom,omitempty"`
	Cause    string `json:"cause,omitempty"`
	Diagnose string `json:"diagnose,omitempty"`
	Cure     string `json:"cure,omitempty"`
}

// References lists them in the order of the report.
func References() []*Reference {
	return []*Reference{reportedTuner, reportedFusedLoss, reportedStreams, reportedLibrary, reportedScales, reportedAtScale, reportedBlindSpots, reportedArtifacts, reportedFingerprints, reportedEpilogue}
}

// String is its words on one line; empty: there are none.
func (r *Reference) String() string {
	if r == nil {
		return ""
	}
	words := slices.DeleteFunc([]string{r.Symptom, r.Cause, r.Diagnose, r.Cure}, func(s string) bool { return s == "" })
	return "“" + strings.Join(words, "” “") + "” (Megatron-LM discussion #7497, " + r.Section + ")"
}

const (
	commonSources = "Common sources of nondeterminism"
	falseAlarms   = "Rule out false alarms"
)

// The six rows of its table, in their order.
var (
	reportedTuner = &Reference{commonSources, "Runs diverge from the first step, but not consistently", "Runtime autotuning selects different kernel configurations",
		"Compare selected configurations and trace the earliest affected output", "Pin or cache a validated configuration"}
	reportedFusedLoss = &Reference{commonSources, "MoE runs diverge only when a fused auxiliary loss is enabled", "Reduction order is not fixed",
		"Disable individual fusions and trace the loss computation", "Use a deterministic reduction or disable the fusion"}
	reportedStreams = &Reference{commonSources, "A resumed run gradually separates from the continuous run", "Incomplete RNG state restoration",
		"Compare RNG state immediately before and after resume", "Save and restore every RNG stream bitwise"}
	reportedLibrary = &Reference{commonSources, "Divergence appears after a software or container update", "A low-level library kernel changed",
		"Bisect the stack and build a minimal kernel reproducer", "Select a deterministic kernel path until corrected"}
	reportedScales = &Reference{commonSources, "Parameters differ immediately after loading a checkpoint", "Low-precision weights or scales were reconstructed differently",
		"Compare values and scaling metadata across save/load", "Preserve a full-precision source of truth and exact reconstruction path"}
	reportedAtScale = &Reference{commonSources, "A recipe passes at small scale but fails at high scale", "Scale-dependent communication or expert-parallel path",
		"Increase scale systematically and trace selected ranks", "Isolate and correct the first scale-dependent operation"}
)

// Its false alarms. Each cause shows one of what a case names.
var (
	reportedBlindSpots = &Reference{Section: falseAlarms, Symptom: "the first mismatch appears at a simple view, slice, or addition",
		Cause: "Custom kernels can bypass TorchDispatchMode and escape the tracing scope", Diagnose: "probe the custom kernel that produced its input"}
	reportedArtifacts = &Reference{Section: falseAlarms, Cause: "Uninitialized tensors, incomplete asynchronous collectives, and nonblocking copies may be read before their contents are valid",
		Cure: "Exclude these cases before declaring the producer nondeterministic"}
	reportedFingerprints = &Reference{Section: falseAlarms, Cause: "Tensor fingerprints quickly detect most differences but are not a formal proof of equality",
		Cure: "Include tensor metadata and scaling data, and use finer-grained fingerprints when element order matters"}
)

// reportedEpilogue is its example of a kernel that was made deterministic and fast.
var reportedEpilogue = &Reference{Section: "Example of Kernel Level Optimization", Cause: "Multiple N-tiles originally accumulated into the same dprob[token] address, making the result depend on their arrival order",
	Cure: "Give each N-tile a private output slot, preserve parallel execution inside the kernel, and combine the slots in a fixed order after all writers finish"}
