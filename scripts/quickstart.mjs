// npm run quickstart [-- --exit] [--data-dir DIR] [--port N]: from a clone to an agent that answers.
// Plain JavaScript for any Node >= 20. The server runs on the Node that the project brings.
import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { ensureInstalled, isBuildOld, node, root, runOrExit } from "./ensure.mjs";

const name = "hello-agent";
const directory = "examples/hello-agent";
const configPath = `${directory}/langgraph.json`;
const question = "What is 6 * 7?";
const program = path.join(root, "dist", "main.js");

const { values: options } = parseArgs({
  options: { exit: { type: "boolean" }, "data-dir": { type: "string" }, port: { type: "string" } },
});
const dataDir = path.resolve(options["data-dir"] ?? process.env.PIERHEAD_DATA_DIR ?? path.join(homedir(), ".pierhead"));
const isDefaultDataDir = dataDir === path.join(homedir(), ".pierhead");

const say = (text) => console.error(text);
const seconds = (since) => `${((Date.now() - since) / 1000).toFixed(1)} s`;
const startedAt = Date.now();

/** The server that this run started and ends. */
let server;
let stopping = false;
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => stop(signal === "SIGINT" ? 0 : 143));

try {
  await main();
} catch (error) {
  say(`\nThe quickstart failed: ${error.message}`);
  await stop(1);
}

async function main() {
  ensureInstalled();
  if (isBuildOld()) await timed("Building", () => runOrExit(node, ["scripts/build.mjs"]));
  const { createClient } = await import(pathToFileURL(path.join(root, "dist", "client", "client.js")).href);
  let credentials = await findRunningServer(createClient);
  if (credentials === undefined) {
    await timed("Starting Pierhead", startServer);
    credentials = readCredentials();
  } else say(`Pierhead is already running at ${credentials.url}`);

  const { url, api_key: apiKey, workspace_id: workspaceId } = credentials;
  const client = createClient({ baseUrl: url, apiKey, workspaceId });
  const deployment = await ensureDeployed(client, url);
  const answer = await timed("Calling the agent", () => callAgent(deployment.url));

  say(`\n  You    ${question}\n  Agent  ${answer}\n`);
  say(`Done in ${seconds(startedAt)}.\n`);
  say(
    `  Console  ${url}  (sign in with the key in ${path.join(dataDir, "credentials.json")}; API reference: ${url}/docs)`,
  );
  console.log(deployment.url);
  if (options.exit) return stop(0);
  const flag = isDefaultDataDir ? "" : ` --data-dir ${dataDir}`;
  say("\nNext, in a second terminal in this directory:");
  for (const command of [`status ${name}`, `logs ${name} -f`, `deploy --template node-server`])
    say(`  npx pierhead ${command}${flag}`);
  if (server === undefined) return;
  say("\nCtrl-C stops Pierhead and its agents; the next run resumes.");
  server.child.stderr.pipe(process.stderr);
  await server.ended;
  if (!stopping) throw new Error("the server ended unexpectedly");
}

function readCredentials() {
  try {
    return JSON.parse(readFileSync(path.join(dataDir, "credentials.json"), "utf8"));
  } catch {
    return undefined;
  }
}

/** A server that accepts the credentials of our data directory is ours, even if another run started it. */
async function findRunningServer(createClient) {
  const credentials = readCredentials();
  if (credentials === undefined) return undefined;
  const { url, api_key: apiKey, workspace_id: workspaceId } = credentials;
  try {
    await createClient({ baseUrl: url, apiKey, workspaceId }).listDeployments({ limit: 1 }, { deadlineMs: 2_000 });
    return credentials;
  } catch {
    return undefined;
  }
}

/** Starts the server as a separate process, so that this script runs on any Node. Its agents end with it. */
async function startServer() {
  const port = options.port === undefined ? [] : ["--port", options.port];
  const args = [program, "up", "--json", "--data-dir", dataDir, "--stop-agents-on-exit", ...port];
  const env = { ...process.env, PIERHEAD_LOG_LEVEL: process.env.PIERHEAD_LOG_LEVEL ?? "warn" };
  const child = spawn(node, args, { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  child.stderr.on("data", (chunk) => {
    said = (said + chunk).slice(-20_000);
  });
  const ended = new Promise((resolve) => child.once("exit", (code, signal) => resolve(signal ?? code)));
  server = { child, ended };
  const ready = new Promise((resolve) => child.stdout.once("data", resolve));
  const outcome = await Promise.race([ready.then(() => "ready"), ended]);
  if (outcome !== "ready") {
    server = undefined;
    throw new Error(`the server did not start.\n\n${said}`);
  }
}

/** Deploys the agent of this clone's HEAD unless it already serves. Without git history, deploys the directory. */
async function ensureDeployed(client, url) {
  const find = async () =>
    (await client.listDeployments({ name, limit: 1 })).resources.find((found) => found.name === name);
  const found = await find();
  const commit = found?.source === "internal_source" ? undefined : headCommit();
  const isServing =
    found !== undefined && found.active_revision_id !== null && found.active_revision_id === found.latest_revision_id;
  if (isServing && commit !== undefined && found.source_revision_config.repo_ref === commit) {
    say(`${name} serves commit ${commit.slice(0, 8)} already`);
    return found;
  }
  const source =
    commit === undefined
      ? [path.join(root, directory)]
      : [pathToFileURL(root).href, "--ref", commit, "--config", configPath];
  say("");
  await runProgram(["deploy", ...source, "--name", name, "--data-dir", dataDir, "--url", url]);
  say("");
  return find();
}

/** Returns undefined when this folder is not a git checkout or its HEAD has no example. */
function headCommit() {
  const git = (...args) => spawnSync("git", ["-C", root, ...args], { encoding: "utf8" });
  const top = git("rev-parse", "--show-toplevel", "HEAD");
  const [directoryOfGit, commit] = top.status === 0 ? top.stdout.trim().split("\n") : [];
  if (commit === undefined || path.resolve(directoryOfGit) !== root) return undefined;
  if (git("cat-file", "-e", `${commit}:${configPath}`).status !== 0) return undefined;
  if (git("status", "--porcelain", "--", directory).stdout.trim() !== "") {
    say(`Uncommitted changes in ${directory} are ignored. The last commit is deployed.`);
  }
  return commit;
}

/** The command line shows the steps on stderr. Its result on stdout is not needed here. */
async function runProgram(args) {
  const { PIERHEAD_URL, PIERHEAD_API_KEY, PIERHEAD_WORKSPACE, ...env } = process.env;
  const child = spawn(node, [program, ...args], { cwd: root, env, stdio: ["ignore", "ignore", "inherit"] });
  const code = await new Promise((resolve) => child.once("exit", resolve));
  if (code !== 0) throw new Error(`pierhead ${args[0]} ended with code ${code}`);
}

/** Calls the agent through the gateway: one thread, one run. A restarted agent may need a moment. */
async function callAgent(url) {
  const post = async (where, body) => {
    const response = await fetch(`${url}${where}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(120_000),
    });
    if (!response.ok) throw new Error(`${where} answered ${response.status}: ${await response.text()}`);
    return response.json();
  };
  const deadlineAt = Date.now() + 60_000;
  while (
    !(await fetch(`${url}/ok`, { signal: AbortSignal.timeout(30_000) }).then(
      ({ ok }) => ok,
      () => false,
    ))
  ) {
    if (Date.now() > deadlineAt) throw new Error(`${url}/ok did not answer 200 within 60 s`);
    await sleep(250);
  }
  const { thread_id: threadId } = await post("/threads", {});
  const input = { messages: [{ role: "user", content: question }] };
  const { messages } = await post(`/threads/${threadId}/runs/wait`, { assistant_id: "agent", input });
  return messages.at(-1).content;
}

async function timed(what, work) {
  const since = Date.now();
  say(`${what} ...`);
  const result = await work();
  say(`${what}: ${seconds(since)}`);
  return result;
}

/** Ends the server that this run started, then this process. */
async function stop(code) {
  if (stopping) return;
  stopping = true;
  if (server !== undefined) {
    say("\nStopping Pierhead and its agents ...");
    server.child.kill("SIGINT");
    await server.ended;
  }
  process.exit(code);
}
