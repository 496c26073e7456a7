package parallel

import (
	"firstbit/device"
	"firstbit/reduce"
)

// roots are what members bring whose shares of a step are no subtrees: each the sums of the largest subtrees that its microbatches have.
type roots struct {
	of   []int        // how many each member brings
	all  []reduce.Run // the microbatches of each
	most int          // for so many each has room
}

// MostRoots is the most roots that one of so many members has, each with so many microbatches; 1: all shares are subtrees.
func MostRoots(members, micros int) int { return rootsOfShares(members, micros).most }

func rootsOfShares(members, micros int) *roots {
	r := &roots{of: make([]int, members), most: 1}
	for i := range members {
		own := reduce.Roots(i*micros, (i+1)*micros)
		r.of[i], r.all, r.most = len(own), append(r.all, own...), max(r.most, len(own))
	}
	return r
}

// rootsOf are those of a collective's members; nil: each brings one sum.
func rootsOf(lead *device.Call, members int) *roots {
	if lead.Whole == nil || lead.Scalar("micros") == 0 {
		return nil
	}
	return rootsOfShares(members, int(lead.Scalar("micros")))
}
