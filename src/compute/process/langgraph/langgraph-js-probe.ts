import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { sharedPackages, sharePackages } from "./langgraph-js-packages.ts";

/**
 * Checks that a LangGraph.js server works with the packages of a project: two runs on one thread of a graph of our own, whose
 * state is then read back. Prints one line, `works` or the reason why it does not.
 *
 *     node langgraph-js-probe.js <toolchain directory> <project directory> <root of the source> <empty state directory>
 */
async function main([toolchainDir = "", projectDir = "", rootDir = "", stateDir = ""]: string[]): Promise<void> {
  const graphFile = fileURLToPath(new URL("./langgraph-js-probe-graph.mjs", import.meta.url));
  const server = createRequire(path.join(toolchainDir, "package.json")).resolve("@langchain/langgraph-api/server");
  const toolchain = pathToFileURL(`${toolchainDir}/`).href;
  sharePackages(sharedPackages(projectDir, rootDir), [toolchain, pathToFileURL(graphFile).href]);
  const { startServer } = (await import(pathToFileURL(server).href)) as {
    startServer(options: object): Promise<{ host: string }>;
  };
  const graphs = { probe: `${path.relative(stateDir, graphFile)}:graph` };
  const { host } = await startServer({ port: 0, host: "127.0.0.1", nWorkers: 1, cwd: stateDir, graphs });
  await takeTurns(`http://${host}`);
}

async function takeTurns(url: string): Promise<void> {
  const ask = async (pathname: string, body?: object) => {
    const headers = { "content-type": "application/json" };
    const given = body === undefined ? {} : { method: "POST", headers, body: JSON.stringify(body) };
    const response = await fetch(url + pathname, given);
    const text = await response.text();
    const answer = text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : {};
    const failure = answer["__error__"] as { message?: string } | undefined;
    if (!response.ok || failure !== undefined) throw new Error(failure?.message ?? `${response.status}: ${text}`);
    return answer;
  };
  const { thread_id: threadId } = await ask("/threads", {});
  const thread = `/threads/${String(threadId)}`;
  const run = { assistant_id: "probe", input: { turns: 0 } };
  const step = async (name: string, act: () => Promise<Record<string, unknown>>) => {
    try {
      return await act();
    } catch (error) {
      throw new Error(`${name} failed: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  await step("the first run on a thread", () => ask(`${thread}/runs/wait`, run));
  await step("the second run on a thread", () => ask(`${thread}/runs/wait`, run));
  const { values } = await step("reading the state of a thread", () => ask(`${thread}/state`));
  const { turns } = (values ?? {}) as { turns?: unknown };
  if (turns !== 2) throw new Error(`the state of a thread was lost: ${JSON.stringify(values)}`);
}

main(process.argv.slice(2)).then(
  () => end("works", 0),
  (error: unknown) => end((error instanceof Error ? error.message : String(error)).split("\n")[0] ?? "", 1),
);

function end(line: string, code: number): void {
  process.stdout.write(`${line}\n`, () => process.exit(code));
}
