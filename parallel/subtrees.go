package parallel

import (
	"firstbit/device"
	"firstbit/reduce"
)

// subtrees are what members bring whose shares of a step are no subtrees: each the sums of the largest subtrees that its microbatches have.
type subtrees struct {
	of   []int        // how many each member brings
	all  []reduce.Run // the microbatches of each
	most int          // for so many each has room
}

// MostSubtrees is the most subtrees that one of so many members has, each with so many microbatches; 1: all shares are subtrees.
func MostSubtrees(members, micros int) int { return subtreesOfShares(members, micros).most }

func subtreesOfShares(members, micros int) *subtrees {
	r := &subtrees{of: make([]int, members), most: 1}
	for i := range members {
		own := reduce.Subtrees(i*micros, (i+1)*micros)
		r.of[i], r.all, r.most = len(own), append(r.all, own...), max(r.most, len(own))
	}
	return r
}

// subtreesOf are those of a collective's members; nil: each brings one sum.
func subtreesOf(lead *device.Call, members int) *subtrees {
	if lead.Whole == nil || lead.Scalar("micros") == 0 {
		return nil
	}
	return subtreesOfShares(members, int(lead.Scalar("micros")))
}
