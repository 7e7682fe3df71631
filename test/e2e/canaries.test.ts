import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { createClient } from "../../src/client/client.ts";
import { operations } from "../../src/contract/operations.ts";
import { runCli } from "../cli/run-cli.ts";
import { type ServerProcess, startServerProcess } from "../storm/server-process.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { Canaries } from "../support/canary.ts";
import { findBinaries, startPostgresServer } from "../support/postgres-server.ts";
import { sharedCacheDir } from "../support/server.ts";
import { startCollector } from "../support/trace-collector.ts";
import {
  type AskOptions,
  credentialFlows,
  deploymentFlows,
  type FlowContext,
  gatewayFlows,
  keyFlows,
  type Made,
} from "./canary-flows.ts";

/** The minimum number of canaries that the flows create. Fewer means that some flows did not run. */
const canariesMin = 50;

for (const kind of ["embedded", "postgres"] as const) {
  test(`leaks no secret into responses, logs, traces, arguments, backups or files (${kind})`, async (context) => {
    const postgres = kind === "postgres" ? await startPostgresServer() : undefined;
    if (kind === "postgres" && postgres === undefined) return context.skip("PostgreSQL is not installed");
    const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-canaries-"));
    const watched = new AbortController();
    const canaries = new Canaries();
    const logged: Buffer[] = [];
    await using collector = await startCollector();
    await using repository = await createAgentRepository();
    const settings = settingsOf(canaries, { databaseUrl: postgres?.url, collectorUrl: collector.url });
    const server = await startServerProcess(dataDir, settings, { onLog: (chunk) => logged.push(chunk) });
    try {
      assert.ok(server !== undefined);
      const arguments_ = watchArguments(watched.signal);
      const texts: string[] = [];
      const flow: FlowContext = { canaries, repository, texts, url: server.url, ask: askOf(server, canaries, texts) };
      const { readerKey, ...keys } = await keyFlows(flow);
      const { agentUrl, own, ...deployment } = await deploymentFlows(flow);
      const environment = await fetch(`${agentUrl}/env`).then((answer) => answer.text());
      const made = { ...keys, ...deployment, ...(await credentialFlows(flow)) };
      await gatewayFlows(flow, agentUrl);
      await sweep(flow, made, readerKey);
      texts.push(await metricsOf(server, settings["PIERHEAD_METRICS_TOKEN"] as string));
      const backup = await backupOf(server, dataDir);
      watched.abort();

      assert.ok(canaries.count >= canariesMin, `${canaries.count}`);
      assert.ok(environment.includes(own), "an agent gets its own secret");
      const found = {
        inResponses: canaries.foundIn(texts.join("\n")),
        logged: canaries.foundIn(Buffer.concat(logged)),
        traced: canaries.foundIn(collector.bodies.join("\n")),
        asArguments: canaries.foundIn(await arguments_),
        inAgents: canaries.foundIn(environment, { but: [own] }),
        inBackup: canaries.foundIn(backup),
        onDisk: await foundBelow(dataDir, canaries),
        ...(postgres !== undefined && { inTables: canaries.foundIn(dumpOf(postgres.url)) }),
      };
      const nothing = Object.fromEntries(Object.keys(found).map((where) => [where, []]));
      assert.deepEqual(found, nothing);
      assert.ok(logged.length > 0 && collector.bodies.length > 0 && texts.length > 100);
    } finally {
      watched.abort();
      if (server !== undefined) await deleteAll(server);
      await server?.stop();
      await postgres?.stop();
      await rm(dataDir, { recursive: true, force: true });
    }
  });
}

/** Deletes all deployments before the server stops, because agents outlive their server. */
async function deleteAll({ url, apiKey }: ServerProcess): Promise<void> {
  const client = createClient({ baseUrl: url, apiKey });
  const { resources } = await client.listDeployments({ limit: 100 });
  for (const { id } of resources) await client.deleteDeployment({ deployment_id: id });
  for (const { id } of resources) await client.waitForDeletion({ deployment_id: id }, { timeoutMs: 120_000 });
}

/** Returns the settings of a server that has a canary in every setting that can hold a secret. */
function settingsOf(
  canaries: Canaries,
  { databaseUrl, collectorUrl }: { databaseUrl: string | undefined; collectorUrl: string },
): Record<string, string> {
  const password = `postgres:${canaries.make("password of the database")}@`;
  const masterKey = canaries.keep("master key", randomBytes(32).toString("base64"));
  const { privateKey } = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
  canaries.keep("private key of the GitHub App", privateKey.split("\n")[5] as string);
  return {
    PORT: "0",
    PIERHEAD_LOG_LEVEL: "debug",
    PIERHEAD_CACHE_DIR: sharedCacheDir,
    PIERHEAD_MASTER_KEY: masterKey,
    PIERHEAD_ADMIN_KEY: `ph_${randomBytes(6).toString("hex")}_${canaries.make("key of the operator")}`,
    PIERHEAD_METRICS_TOKEN: canaries.make("token of the metrics"),
    PIERHEAD_SERVICE_KEY_SECRET: canaries.make("secret of services"),
    PIERHEAD_GITHUB_APP_ID: "1",
    PIERHEAD_GITHUB_PRIVATE_KEY: privateKey,
    PIERHEAD_GITHUB_WEBHOOK_SECRET: canaries.make("webhook secret of GitHub"),
    PIERHEAD_GITHUB_CLIENT_ID: "client",
    PIERHEAD_GITHUB_CLIENT_SECRET: canaries.make("client secret of GitHub"),
    PIERHEAD_OIDC_ISSUER: "https://127.0.0.1:1",
    PIERHEAD_OIDC_CLIENT_ID: "client",
    PIERHEAD_OIDC_CLIENT_SECRET: canaries.make("client secret of the sign-in"),
    PIERHEAD_TRACES_URL: collectorUrl,
    PIERHEAD_TRACES_HEADERS: `x-key=${canaries.make("key of the collector")}`,
    ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl.replace("postgres@", password) }),
  };
}

function askOf({ url, apiKey }: ServerProcess, canaries: Canaries, texts: string[]): FlowContext["ask"] {
  return async (verb, path, body, { key = apiKey, headers = {}, gives }: AskOptions = {}) => {
    const answer = await fetch(url + path, {
      method: verb,
      headers: { ...(key !== "" && { "x-api-key": key }), "content-type": "application/json", ...headers },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await answer.text();
    const parsed = text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : null;
    const given = answer.ok && gives !== undefined ? Object.entries(gives(parsed)) : [];
    assert.ok(gives === undefined || answer.ok, `${verb} ${path}: ${answer.status} ${text}`);
    let rest = withoutSecrets(parsed, text);
    for (const [what, secret] of given) rest = rest.replaceAll(canaries.keep(what, secret), "");
    texts.push(rest, JSON.stringify([...answer.headers]));
    return { status: answer.status, body: parsed, text };
  };
}

/** Removes the `secrets` fields, because callers who may change a deployment may see its secrets there. */
function withoutSecrets(body: unknown, text: string): string {
  if (body === null) return text;
  return JSON.stringify(body, (name, value) => (name === "secrets" && Array.isArray(value) ? [] : value));
}

/** Calls every read operation with a reader's key and records the full responses: a reader must not see any secret. */
async function sweep({ url, texts }: FlowContext, made: Made, readerKey: string): Promise<void> {
  for (const operation of Object.values(operations)) {
    const names = [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);
    const isRead = operation.verb === "GET" || /\/(build|deploy)_logs$/.test(operation.path);
    if (!isRead || !names.every((name) => name in made)) continue;
    const at = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(made[name] as string));
    const answer = await fetch(url + at, {
      method: operation.verb,
      headers: { "x-api-key": readerKey, "x-user-id": "alice", "content-type": "application/json" },
      ...(operation.verb === "POST" && { body: "{}" }),
      redirect: "manual",
    });
    assert.ok(answer.status < 500, `${operation.id}: ${answer.status}`);
    texts.push(await answer.text());
  }
}

async function metricsOf({ url }: ServerProcess, token: string): Promise<string> {
  const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
  assert.equal(answer.status, 200);
  return answer.text();
}

async function backupOf({ url, apiKey }: ServerProcess, directory: string): Promise<Buffer> {
  const file = path.join(directory, "backup.tar.gz");
  const ran = await runCli(["backup", file], { env: { PIERHEAD_URL: url, PIERHEAD_API_KEY: apiKey } });
  assert.equal(ran.code, 0, ran.stderr);
  const bytes = gunzipSync(await readFile(file));
  await rm(file);
  return bytes;
}

/** Polls the command lines of all processes on this machine until the signal aborts. Returns all that it has seen. */
async function watchArguments(signal: AbortSignal): Promise<string> {
  const seen = new Set<string>();
  while (!signal.aborted) {
    for (const pid of await readdir("/proc").catch(() => [])) {
      if (/^\d+$/.test(pid)) seen.add(await readFile(`/proc/${pid}/cmdline`, "latin1").catch(() => ""));
    }
    await sleep(10);
  }
  return [...seen].join("\n");
}

/** Returns the canaries in all files except `credentials.json`, which holds the admin key and is readable only by its owner. */
async function foundBelow(directory: string, canaries: Canaries): Promise<string[]> {
  assert.equal((await stat(path.join(directory, "credentials.json"))).mode & 0o777, 0o600);
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const found: string[] = [];
  for (const entry of entries) {
    if (!entry.isFile() || entry.name === "credentials.json") continue;
    const file = path.join(entry.parentPath, entry.name);
    const bytes = await readFile(file).catch(() => Buffer.alloc(0));
    for (const what of canaries.foundIn(bytes)) found.push(`${what}: ${path.relative(directory, file)}`);
  }
  return found;
}

function dumpOf(url: string): string {
  const dump = spawnSync(path.join(findBinaries() ?? "", "pg_dump"), [url], { encoding: "utf8", maxBuffer: 1e9 });
  assert.equal(dump.status, 0, dump.stderr);
  return dump.stdout;
}
