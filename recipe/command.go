package recipe

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"firstbit/experiments"
)

// product is a product that the small pattern has, for causes that may lie in any.
func (s Small) product() string {
	for _, p := range []struct{ letter, name string }{{"*", "attn.wq"}, {"M", "ssm.in_proj"}, {"-", "mlp.w1"}} {
		if strings.Contains(s.Config.Model.Pattern, p.letter) {
			return "*." + p.name
		}
	}
	return "*.shared.w1"
}

// format is that of weights and activations.
func (s Small) format() string {
	f, err := s.Config.Format()
	if err != nil {
		panic(err) // the configuration is valid
	}
	return f.String()
}

// commands are the pair of the cause on the small recipe, and the same with its cure.
func (x row) commands(c *experiments.Cause, s Small, config string) (show, cure string) {
	layout := s.Layout.String()
	switch {
	case x.cause == "microbatch-order" && s.Layout.PP > 1: // a pipeline's order is its schedule's
		layout = s.Layout.With("vpp", 1).With("pp", 1).String()
	case x.cause == "clip-norm" && s.Config.Optim.Replicated: // the norm of a replica is over its own ranks
		layout = "tp=2,pp=2"
	case x.from > 1: // on the axis whose sums it is about
		layout = fmt.Sprintf("dp=%d", cmp.Or(x.shown, x.from))
	}
	replicated := s.Config.Optim.Replicated && layout != "tp=2,pp=2"
	at := func(flag string) string {
		for _, pair := range x.at {
			from, to, _ := strings.Cut(pair, "=")
			if strings.Contains(flag, from) {
				flag = strings.Replace(flag, from, strings.NewReplacer("PRODUCT", s.product(), "FORMAT", s.format()).Replace(to), 1)
				break
			}
		}
		return flag
	}
	pair := func(cured bool) string {
		var sides [2]string
		for side, flags := range c.Flags(cured) {
			words := []string{"--config", quote(config), "--layout", layout}
			if x.steps > 0 {
				words = append(words, "--steps", strconv.Itoa(x.steps))
			}
			for _, p := range s.Plans {
				glob, _, _ := strings.Cut(p, " ")
				if slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, glob+" ") }) {
					continue // the pair is about that sum
				}
				words = append(words, "--plan", quote(p))
			}
			for i := 0; i+1 < len(flags); i += 2 {
				if replicated && strings.HasPrefix(flags[i+1], "grad_norm.all ") {
					continue // there is none
				}
				words = append(words, flags[i], quote(at(flags[i+1])))
			}
			sides[side] = strings.Join(words, " ")
		}
		return fmt.Sprintf("firstbit localize --a '%s' --b '%s'", sides[0], sides[1])
	}
	return pair(false), pair(true)
}

// quote is a word within single quotes of a shell.
func quote(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n\"'\\$`*?;&|<>()[]{}!#~") {
		return word
	}
	return `"` + word + `"`
}
