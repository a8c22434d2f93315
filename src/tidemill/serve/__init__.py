"""Clients of the engine: command line, shell, demo, doctor.

`cli` has the commands; each does its work in a module of its own.

run and look  `run`, `follow`, `status`, `sites`, `explain`
shell         `shell`, `shell_input`, `notebook`
demo          `demo`, `demo_screen`, `demo_console`, `demo_sites`
server        `serve_command`, `serving`, `logs`, `http/`, `postgres/`; its client `remote`
care          `doctor`, `backup`, `calibrate`
all of them   `opening`, `terminal`, `results`, `render`, `problems`
"""
