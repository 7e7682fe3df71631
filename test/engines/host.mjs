// host.mjs ENGINE OPTIONS: serves the graphs of the engine's example. ENGINE is `file` or `postgres`; OPTIONS is JSON.
import path from "node:path";
import { pathToFileURL } from "node:url";

const [engine, text] = process.argv.slice(2);
const { port, cwd, engineOptions, server } = JSON.parse(text);
const packageDir = path.join(import.meta.dirname, "../../engines/langgraph-js-postgres");
const part = (file) => import(pathToFileURL(path.join(packageDir, file)).href);

const names = ["steps", "approval", "failing", "memory", "chat", "branches"];
const graphs = Object.fromEntries(names.map((name) => [name, `${path.join(packageDir, "example/agent.mjs")}:${name}`]));
const options = { port, host: "127.0.0.1", nWorkers: 10, cwd, graphs, ...server };

if (engine === "file") {
  const { startServer } = await part("node_modules/@langchain/langgraph-api/dist/server.mjs");
  const { cleanup } = await startServer(options);
  process.once("SIGTERM", () => cleanup().then(() => process.exit(0)));
} else {
  const { serve } = await part("src/serve.ts");
  await serve(options, engineOptions);
}
process.send?.("ready");
