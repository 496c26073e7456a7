package experiments

import "firstbit/train"

// continued is the configuration of causes that show after a restore.
func continued() train.Config {
	c := train.Tiny()
	c.Steps, c.Precision = 8, "bf16"
	return c
}

// noisy is one that draws random numbers.
func noisy() train.Config {
	c := continued()
	c.Model.Dropout = 0.1
	return c
}
