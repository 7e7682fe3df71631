import { readFile, realpath } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

/**
 * The smallest host of a built LangGraph.js agent, to prove that artifacts run. Arguments: artifact directory, start
 * plan as JSON, state directory. Prints `ready <host>:<port>`.
 */
const [artifactDir = "", plan = "", givenStateDir = ""] = process.argv.slice(2);
const { toolchain_dir: toolchainDir, config_path: configPath } = JSON.parse(plan) as Record<string, string>;
const stateDir = await realpath(givenStateDir);
const configDir = path.join(artifactDir, path.dirname(configPath ?? ""));
const { graphs } = JSON.parse(await readFile(path.join(artifactDir, configPath ?? ""), "utf8")) as {
  graphs: Record<string, string>;
};

const api = createRequire(path.join(toolchainDir ?? "", "package.json")).resolve("@langchain/langgraph-api/server");
const { register } = await import(pathToFileURL(createRequire(api).resolve("tsx/esm/api")).href);
register();
const { startServer } = await import(pathToFileURL(api).href);
const { host } = await startServer({
  port: 0,
  nWorkers: 1,
  host: "127.0.0.1",
  cwd: stateDir,
  graphs: Object.fromEntries(
    Object.entries(graphs).map(([id, graph]) => [id, path.relative(stateDir, path.join(configDir, graph))]),
  ),
});
console.log(`ready ${host}`);
