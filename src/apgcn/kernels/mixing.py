"""By what does SplitMix64 step along its tape and mix a word? What all who read a tape must agree on."""

GAMMA = 0x9E3779B97F4A7C15
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)
