package parallel

import "firstbit/nn"

// Shares are the ranks whose gradients of a weight add up, by when they do.
//
// By the fixed and the fast recipe all of them add at the end of a step. By the canonical one what ranks have of a microbatch adds before
// microbatches meet, since Σ over microbatches of Σ over ranks is not the reverse: that is all that this recipe asks of a weight, beside
// keeping its uses apart (nn.ByUse).
type Shares struct {
	Micro Member // over a microbatch's gradients, before microbatches meet
	Step  Member // over those of a step, each rank keeping a shard
	Same  Member // then over the ranks that have the same shard
	// Sources is of how many data ranks each rank of Step has the tokens' gradients: several where tokens of several come to an expert.
	Sources int
	Counts  bool // the rank's shard enters the norm: of ranks that have the same elements, one counts them
}

// Shares says which ranks have a share of a weight's gradient.
//
//	weight                    recipe     Micro     Step         Same  counted by the first of
//	a part on each tp rank    fixed      —         data         —     —
//	                          canonical  cp        dp           —     cp
//	whole on each tp rank     fixed      —         data         tp    tp
//	                          canonical  micro     dp           —     micro
//	of experts                fixed      —         edp          —     —
//	                          canonical  siblings  edp, or dp   —     siblings
//
// Ranks with the same experts and other microbatches are dp where a microbatch spreads over more ranks than the experts do. What both ends of
// a pipeline have the first stage counts.
func (r Rank) Shares(p *nn.Param, canonical bool) Shares {
	s := Shares{Step: r.Data(), Sources: 1}
	switch {
	case p.Expert && canonical:
		s.Micro, s.Step = r.Siblings(), r.DP()
		if l := r.Layout(); l.EP*l.ETP >= l.TP*l.CP {
			s.Step, s.Sources = r.EDP(), l.EP*l.ETP/(l.TP*l.CP)
		}
	case p.Expert:
		s.Step = r.EDP()
	case p.Sequence && canonical:
		s.Micro, s.Step = r.Micro(), r.DP()
	case p.Sequence:
		s.Same = r.TP()
	case canonical:
		s.Micro, s.Step = r.CP(), r.DP()
	}
	s.Counts = s.Micro.Index == 0 && s.Same.Index == 0 && !(p.Ends && r.Ends().Index > 0)
	return s
}

// CountsInReplica tells whether a rank counts a weight in the norm of its replica, which Model and ExpertModel are: of those that have the same
// elements the first does.
func (r Rank) CountsInReplica(p *nn.Param) bool {
	return !(p.Sequence && r.TP().Index > 0) && !(p.Ends && r.Ends().Index > 0)
}
