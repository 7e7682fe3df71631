/** An agent server that tries out what its container lets it do. */
export const prober = `
import { readFileSync, writeFileSync, existsSync } from "node:fs";
import { spawn } from "node:child_process";
import { createServer } from "node:http";
const acts = {
  ok: () => "ok",
  read: (path) => readFileSync(path, "utf8"),
  write: (path) => { writeFileSync(path, "kept"); return "written"; },
  exists: (path) => String(existsSync(path)),
  fetch: async (url) => (await fetch(url, { signal: AbortSignal.timeout(3_000) })).text(),
  fork: async (count) => {
    const started = Array.from({ length: Number(count) }, () => spawn("/usr/local/bin/node", ["-v"]));
    const ends = started.map((child) => new Promise((end) => child.on("error", (e) => end(e.code)).on("exit", () => end("ended"))));
    return JSON.stringify(await Promise.all(ends));
  },
};
createServer(async (request, response) => {
  const url = new URL(request.url, "http://agent");
  const act = acts[url.pathname.slice(1)];
  try {
    response.end(await act(url.searchParams.get("of")));
  } catch (error) {
    response.writeHead(500).end(String(error.cause?.code ?? error.code ?? error));
  }
}).listen(Number(process.env.PORT), process.env.HOST);
process.on("SIGTERM", () => process.exit(0));
`;
