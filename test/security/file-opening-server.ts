import { readFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createHttpServer } from "../../src/server/http-server.ts";

/** A server that opens a file for each answer. Prints its port. */
const { server } = createHttpServer(
  { upgrade: () => {} },
  {
    answer: (_request, response) =>
      void readFile(import.meta.filename).then(
        () => response.end("read"),
        (error: NodeJS.ErrnoException) => response.writeHead(500).end(error.code),
      ),
    isForAgent: () => false,
  },
);
server.listen(0, "127.0.0.1", () => console.log((server.address() as AddressInfo).port));
