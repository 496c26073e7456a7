package trace

import "firstbit/device"

// Lens stands between a Tracer and the Calls that it looks at. A Tracer without one sees what is there; the mistakes that tracers make are
// of package inject.
type Lens interface {
	// Sees is asked before a Call of the window runs, and after it ran.
	Sees(c *device.Call, ran bool) Sight
}

// Sight is what is seen of a Call otherwise than it is.
type Sight struct {
	More *Look        // a record besides the Call's own
	Outs []device.Arg // outputs, in the place of the Call's; nil: those
	None bool         // the Call has no record; its kernel has
}

// Look is a record of something that no Call of training did.
type Look struct {
	Name    string
	Flags   device.Flags
	In, Out []device.Arg
}

// sight is what the Lens shows of a Call, whose record besides its own is written.
func (t *Tracer) sight(c *device.Call, ran bool) Sight {
	if t.Lens == nil {
		return Sight{}
	}
	s := t.Lens.Sees(c, ran)
	if s.More == nil || t.Level < Op {
		return s
	}
	r := t.record(c)
	r.Kind, r.Name, r.Flags, r.Library = device.Op.String(), s.More.Name, flagNames(s.More.Flags), c.Library
	r.Group, r.Peer, r.Role, r.Of, r.Place, r.Kernel = "", nil, "", "", nil, ""
	for _, a := range s.More.In {
		g := t.sign.tensor(a)
		if a.From != "" {
			from := a.From
			g.From = &from
		}
		r.In = append(r.In, g)
	}
	for _, a := range s.More.Out {
		r.Out = append(r.Out, t.sign.tensor(a))
	}
	t.write(r)
	return s
}
