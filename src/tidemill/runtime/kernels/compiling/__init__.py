"""When kernels are compiled, which a plan needs, and where the machine code is kept."""
