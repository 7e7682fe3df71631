import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { eventually } from "../support/eventually.ts";

const filesMax = 300;
const program = "test/security/file-opening-server.ts";
const child = spawn("sh", ["-c", `ulimit -n ${filesMax} && exec "$0" "$1"`, process.execPath, program], {
  stdio: ["ignore", "pipe", "inherit"],
});
after(() => void child.kill());
const [port] = await once(createInterface(child.stdout), "line");

/** Opens connections from one address. The ones that the server closes leave the list. */
function openMany(count: number, localAddress: string, text: string): Set<Socket> {
  const open = new Set<Socket>();
  for (let at = 0; at < count; at += 1) {
    const socket = connect({ port: Number(port), host: "127.0.0.1", localAddress });
    open.add(socket);
    socket.on("error", () => {}).on("close", () => open.delete(socket));
    socket.write(text);
  }
  return open;
}

/** Resolves with the answer to a request on a connection of its own, or "closed". */
function ask(localAddress: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ port: Number(port), host: "127.0.0.1", localAddress });
    let received = "";
    socket.on("data", (chunk) => {
      received += chunk.toString();
    });
    socket.on("error", () => {}).on("close", () => resolve(received === "" ? "closed" : received));
    socket.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  });
}

test("addresses that open as many connections as they can leave files to the server, and connections to others", {
  timeout: 60_000,
}, async () => {
  const half = "GET / HTTP/1.1\r\nHost: a\r\nX-Never-Ends: ";
  const crowds: Set<Socket>[] = [];
  for (const address of ["127.0.0.2", "127.0.0.3"]) {
    const crowd = openMany(filesMax, address, half);
    crowds.push(crowd);
    await eventually(
      () => crowd.size,
      (size) => size <= filesMax / 6,
    );
  }
  assert.match(await ask("127.0.0.4"), /^HTTP\/1\.1 200 OK[\s\S]*read$/);
  for (const socket of crowds.flatMap((crowd) => [...crowd])) socket.destroy();
  assert.match(await ask("127.0.0.2"), /^HTTP\/1\.1 200 OK[\s\S]*read$/);
});
