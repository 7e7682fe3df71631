import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Artifact } from "../../src/contract/listeners/assignment.ts";
import { brokenCause } from "./conformance.ts";

/** Writes a directory artifact whose start command is `node agent.mjs`. */
export async function writeAgent(directory: string, program: string): Promise<Artifact> {
  await mkdir(directory, { recursive: true });
  await writeFile(path.join(directory, "agent.mjs"), program);
  return commandArtifact(directory, [process.execPath, "agent.mjs"]);
}

export const commandArtifact = (directory: string, argv: string[]): Artifact => ({
  kind: "directory",
  digest: "sha256:0",
  path: directory,
  start: { runner: "command", argv, cwd: "." },
  health_path: "/ok",
  rollout: "rolling",
});

/** Small agent servers, each a program for Node. */
export const agents = {
  /** Reports its id and health, and allocates, writes or exits on request. */
  healthy: `
    import { spawn } from "node:child_process";
    import { createServer } from "node:http";
    const held = [];
    createServer((request, response) => {
      const url = new URL(request.url, "http://localhost");
      if (url.pathname === "/ok") return response.end('{"ok":true}');
      if (url.pathname === "/info") return response.end('{"version":"7.1.0"}');
      if (url.pathname === "/env") return response.end(JSON.stringify({ env: process.env, pid: process.pid, cwd: process.cwd() }));
      if (url.pathname === "/exit") process.exit(Number(url.searchParams.get("code")));
      if (url.pathname === "/grow") setInterval(() => held.push(Buffer.alloc(16 << 20, 1)), 5);
      if (url.pathname === "/write") return process.stdout.write(url.searchParams.get("text") + "\\n", () => response.end());
      if (url.pathname === "/flood") return flood(Number(url.searchParams.get("mib")), () => response.end());
      if (url.pathname === "/child") return response.end(String(child().pid));
      if (url.pathname === "/stubborn") process.on("SIGTERM", () => {});
      if (url.pathname === "/reluctant") process.once("SIGTERM", () => {});
      response.end();
    }).listen(Number(process.env.PORT), process.env.HOST);
    const line = "x".repeat(1023) + "\\n";
    function flood(mib, done) {
      if (mib === 0) return done();
      process.stdout.write(line.repeat(1024), () => setImmediate(flood, mib - 1, done));
    }
    const child = () => spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { detached: true, stdio: "ignore" });
  `,
  broken: `
    console.log("starting");
    console.error(${JSON.stringify(brokenCause)});
    process.exitCode = 3;
  `,
  hanging: "setInterval(() => {}, 1000);",
  /** Long lines, each in one write, and then the exit. */
  talker: 'process.stdout.write(["a".repeat(40_000), "b".repeat(100_000), "end"].join("\\n") + "\\n");',
  endsAtOnce: 'console.log("nothing to do");',
  /** Answers, but is never healthy. */
  sick: `
    import { createServer } from "node:http";
    createServer((_, response) => response.writeHead(503).end()).listen(Number(process.env.PORT), "127.0.0.1");
  `,
};
