"""Instance metadata of one node, answered on its true address inside the node's own network namespace.

Version 2 only, as the service has it: a token by PUT, 401 without one, 400 for a lifetime out of range, 403 for a request
that was forwarded, 404 with a page in the body for a path that is not there.
"""
import ctypes
import http.server
import os
import secrets
import socket
import threading

CLONE_NEWNET = 0x40000000


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, code, body, headers=()):
        data = body.encode()
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_PUT(self):
        service = self.server.service
        service.requests += 1
        ttl = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if service.fault:
            self.answer(service.fault, "")
        elif self.path != "/latest/api/token" or self.headers.get("X-Forwarded-For"):
            self.answer(403, "")
        elif not ttl.isdigit() or not 1 <= int(ttl) <= 21600:
            self.answer(400, "")
        else:
            token = secrets.token_urlsafe(40)
            service.tokens.add(token)
            self.answer(200, token, [("X-aws-ec2-metadata-token-ttl-seconds", ttl)])

    def do_GET(self):
        service = self.server.service
        service.requests += 1
        if service.fault:
            self.answer(service.fault, "")
        elif self.headers.get("X-aws-ec2-metadata-token") not in service.tokens:
            self.answer(401, "")
        elif self.path == "/latest/meta-data/instance-type":
            self.answer(200, service.instance_type)
        else:
            self.answer(404, "<?xml version=\"1.0\"?><html><body><h1>404 - Not Found</h1></body></html>")

    def log_message(self, *_):
        pass


class Imds:
    def __init__(self, pid, address, instance_type):
        """`pid`: any process of the namespace to answer in. `fault`: a status that every request gets, 0 for none."""
        self.instance_type = instance_type
        self.fault = 0
        self.requests = 0
        self.tokens = set()
        made = []
        # A socket belongs to the network namespace of the thread that made it, so a thread goes there to make it.
        maker = threading.Thread(target=lambda: made.append(self.listen(pid, address)))
        maker.start()
        maker.join()
        if not made or isinstance(made[0], OSError):
            raise made[0] if made else OSError("no socket")
        self.server = http.server.ThreadingHTTPServer((address, 80), Handler, bind_and_activate=False)
        self.server.daemon_threads = True
        self.server.socket.close()
        self.server.socket = made[0]
        self.server.service = self
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self.thread.start()

    @staticmethod
    def listen(pid, address):
        try:
            with open(f"/proc/{pid}/ns/net") as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns " + os.strerror(ctypes.get_errno()))
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, 80))
            listener.listen(32)
            return listener
        except OSError as error:
            return error

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
