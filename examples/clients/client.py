"""Asks koalagate for rows before an export, and settles the rows that it used:

    KOALA_TOKEN=… python3 client.py http://127.0.0.1:9981 ann 600 250
"""
import json
import os
import sys
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen


def call(address, **args):
    """Returns the reply. Raises OSError if koalagate has not decided: what then is up to you."""
    token = os.environ.get("KOALA_TOKEN", "")  # of koala_token, if that is set
    request = Request(address, urlencode(args).encode(), {"Authorization": "Bearer " + token})
    try:
        response = urlopen(request, timeout=1)
    except HTTPError as e:
        response = e  # its body has the reason
    with response:
        reply = json.load(response)
    if reply.get("err_no", 0) != 0:
        raise OSError(f"{address}: {reply['err_msg']}")
    return reply


def export(address, user, expected, used):
    entry = call(address + "/rule/take", act="export", uid=user, rows=expected)
    if entry["Err_no"] != 0:
        return "refused: " + entry["Err_msg"]
    # The export is here. If the settlement fails, the expected rows stay counted.
    call(address + "/rule/settle", _receipt=entry["Receipt"], _hits=used)
    return "allowed"


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: client.py ADDRESS USER EXPECTED USED")
    try:
        print(export(*sys.argv[1:]))
    except OSError as e:
        sys.exit(str(e))
