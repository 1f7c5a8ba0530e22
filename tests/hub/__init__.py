"""A class on one machine: the real hub and proxy on loopback, with real users of the system."""
