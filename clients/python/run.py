"""Calls an API with a library: run.py LIBRARY URL. Each call is told in a line, as by node/run.mjs."""

import json
import sys

name, url = sys.argv[1:]

if name == "requests":
    import requests

    session = requests.Session()

    def call():
        response = session.get(url + "/word")
        response.raise_for_status()
        return response.json()["word"]

else:
    import urllib3

    pool = urllib3.PoolManager()

    def call():
        response = pool.request("GET", url + "/word")
        if response.status != 200:
            raise RuntimeError(f"status {response.status}")
        return json.loads(response.data)["word"]


for i in range(1, 5):
    try:
        word = call()
    except Exception as e:
        print(i, "error", f"{type(e).__name__}: {e}")
        sys.exit(1)
    print(i, "ok" if word == "right" else f"bogus {word}")
