package experiments

// Broken are the two runs of the pair that the cause makes differ.
func (c *Cause) Broken() [2]Spec { return [2]Spec{c.spec(c.broken, 0), c.spec(c.broken, 1)} }
