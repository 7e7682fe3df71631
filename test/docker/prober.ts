/** An agent server that tests what its container allows. */
export const prober = `
import { readFileSync, writeFileSync, existsSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:http";
const acts = {
  ok: () => "ok",
  read: (path) => readFileSync(path, "utf8"),
  write: (path) => { writeFileSync(path, "kept"); return "written"; },
  exists: (path) => String(existsSync(path)),
  fetch: async (url) => (await fetch(url, { signal: AbortSignal.timeout(3_000) })).text(),
  /** Body of a function. What it throws is reported by its code. */
  run: (code) => new (async () => {}).constructor("require", code)(createRequire(import.meta.url)).then(JSON.stringify),
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
