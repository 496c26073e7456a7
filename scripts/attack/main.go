//go:build unix

// Command attack drives the built program from outside with damaged inputs, second processes in one folder, kills, signals and full disks.
// It knows the right answer of every case and looks at exit codes, output, bits, leftovers, time and memory. A case is drawn from the seed, the
// name of its attack and its number, so one line runs it again.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"time"
)

// An attack is a kind of case.
type attack struct {
	name        string
	full, short int  // how many cases
	alone       bool // one at a time: its cases run several processes, or measure them
	prepare     func(*arena) error
	try         func(*trial) error
}

// attacks are in the order in which they run.
func attacks() []attack {
	return []attack{traces(), checkpoints(), weights(), inputs(), savers(), kills(), signals(), disks()}
}

type options struct {
	seed            uint64
	short           bool
	percent, number int
	run, program    string
	limit           time.Duration
	memory          int64
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "what the cases are drawn from; default: the clock")
	flag.BoolVar(&o.short, "short", false, "a slice of under a minute")
	flag.IntVar(&o.percent, "n", 100, "percent of the cases")
	flag.StringVar(&o.run, "run", "", "attacks whose names match this regular expression; empty: all")
	flag.IntVar(&o.number, "case", -1, "only the case of this number")
	flag.StringVar(&o.program, "program", "", "the built program; empty: build ./cmd/firstbit")
	flag.DurationVar(&o.limit, "limit", time.Minute, "a process that takes longer hangs")
	mib := flag.Int64("memory", 1024, "MiB that a process may take")
	flag.Parse()
	o.memory = *mib << 20
	ok, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run tells whether every case went right.
func run(o options) (ok bool, err error) {
	chosen, err := regexp.Compile(o.run)
	if err != nil {
		return false, fmt.Errorf("run: %w", err)
	}
	a, err := newArena(o)
	if err != nil {
		return false, err
	}
	defer a.close()
	fmt.Printf("seed %d\n", o.seed)
	ok = true
	for _, k := range attacks() {
		if !chosen.MatchString(k.name) {
			continue
		}
		if err := k.prepare(a); err != nil {
			return false, fmt.Errorf("%s: %w", k.name, err)
		}
		r := a.all(k)
		r.print(os.Stdout)
		ok = ok && r.failed == 0
	}
	return ok, nil
}

// all runs the cases of an attack.
func (a *arena) all(k attack) *results {
	r := newResults(k.name)
	cases := max(k.full*a.percent/100, 1)
	if a.short {
		cases = k.short
	}
	workers := runtime.GOMAXPROCS(0)
	if k.alone {
		workers = 1
	}
	numbers, done := make(chan int), make(chan bool)
	for range workers {
		go func() {
			for i := range numbers {
				r.add(a.one(k, i))
			}
			done <- true
		}()
	}
	for i := range cases {
		if a.number < 0 || i == a.number {
			numbers <- i
		}
	}
	close(numbers)
	for range workers {
		<-done
	}
	return r
}

// one runs a case in a folder of its own.
func (a *arena) one(k attack, i int) *trial {
	t := &trial{arena: a, attack: k.name, number: i, rand: a.random(k.name, i), kind: "(none)"}
	defer func() {
		if t.failure != nil {
			t.failure = fmt.Errorf("%w\n    go run ./scripts/attack -seed %d -run '^%s$' -case %d", t.failure, a.seed, k.name, i)
		}
		_ = os.RemoveAll(t.dir) // and with the arena at the end
	}()
	if t.dir, t.failure = os.MkdirTemp(a.dir, "case-"); t.failure == nil {
		t.failure = k.try(t)
	}
	return t
}
