"""Steps that grow, each in its own way, and twins that don't: makers, so that each has fresh state.

A maker returns a function of the call's number.  Sizes are small: a kept unit is 16 KiB, a
[64, 64] float32.
"""
