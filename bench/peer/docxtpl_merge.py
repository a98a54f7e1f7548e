"""docxtpl in `bench/documents`: merges a template again and again, each time from the file to a file.

    docxtpl_merge.py TEMPLATE VALUES OUT COUNT      prints one line: see bench/documents
"""

import json
import sys
import time

from docxtpl import DocxTemplate

template, values, out, count = sys.argv[1:]
values = json.load(open(values))
values = {**values["fields"], "item": values["item"]}


def merge():
    document = DocxTemplate(template)
    document.render(values, autoescape=True)
    document.save(out)


merge()
times, used = [], time.process_time()
for _ in range(int(count)):
    started = time.perf_counter()
    merge()
    times.append(time.perf_counter() - started)
used = time.process_time() - used
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(f"{sorted(times)[len(times) // 2] * 1000:.2f},{used / len(times) * 1000:.2f},{int(peak) / 1024:.1f}")
