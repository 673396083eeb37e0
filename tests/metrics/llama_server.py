"""llama.cpp's server as a process: `python llama_server.py model.gguf` prints its port."""

import sys
import time
from urllib.parse import urlsplit

import xllamacpp

if __name__ == "__main__":
    settings = xllamacpp.CommonParams()
    settings.model.path = sys.argv[1]
    settings.n_ctx, settings.n_parallel, settings.warmup, settings.verbosity = 2048, 1, False, -1
    settings.cpuparams.n_threads = 1
    server = xllamacpp.Server(settings)
    print(urlsplit(server.listening_address).port, flush=True)
    while True:
        time.sleep(60)
