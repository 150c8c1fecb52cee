"""A relay in front of a server that speaks HTTP. It records what the host sends, with the headers."""
import re, socket, threading


class Relay:
    def __init__(self, url, file):
        """Listens on a free port. The attribute url is the URL of the server at that port."""
        self.port = int(re.search(r":(\d+)/", url)[1])
        self.file = open(file, "wb", buffering=0)
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(":%d/" % self.port, ":%d/" % listener.getsockname()[1])
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()

    def accept(self, listener):
        while True:
            host, _ = listener.accept()
            server = socket.create_connection(("127.0.0.1", self.port))
            threading.Thread(target=self.copy, args=(host, server, self.file), daemon=True).start()
            threading.Thread(target=self.copy, args=(server, host, None), daemon=True).start()

    def copy(self, source, target, file):
        """Copies until source ends. The end is passed on, because it cancels a request."""
        try:
            while data := source.recv(1 << 16):
                if file:
                    file.write(data)
                target.sendall(data)
        except OSError:
            pass
        for s in source, target:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
