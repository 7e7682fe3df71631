import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { ApiFailure, type Client, createClient } from "../../src/client/client.ts";
import { isFinal } from "../../src/domain/revision-status.ts";
import { type AgentRepository, createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import {
  canContain,
  containedDirectory,
  containedSkipped,
  fillDisk,
  runContained,
} from "../support/contained-process.ts";
import { templateDirectory } from "../support/database-template.ts";
import { eventually } from "../support/eventually.ts";
import { findBinaries, postgresSkipped } from "../support/postgres-server.ts";

/** A server with a small disk of its own. */
interface SmallServer extends AsyncDisposable {
  api: Client;
  url: string;
  /** The path of the data directory for this process. */
  dataDir: string;
  /** Fills the disk completely. Call it before each attempt, because the server frees some space when it fails. */
  fill(): void;
  makeSpace(): void;
}

const dataDir = path.join(containedDirectory, "data");
const timeoutMs = 180_000;

async function startSmallServer(args: string[]): Promise<SmallServer> {
  const environment = {
    ...{ PORT: "0", PIERHEAD_DATA_DIR: dataDir, PIERHEAD_LOG_LEVEL: "error", NO_COLOR: "1" },
    PIERHEAD_DATABASE_TEMPLATE_DIR: await templateDirectory(),
    PIERHEAD_CACHE_DIR: path.join(dataDir, "cache"),
  };
  const world = runContained(path.resolve("test/support/contained-server.ts"), args, { environment });
  let output = "";
  for (const stream of [world.child.stdout, world.child.stderr]) {
    stream?.on("data", (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-5_000);
    });
  }
  const ended = new Promise<void>((resolve) => world.child.once("exit", () => resolve()));
  const end = async () => {
    world.child.kill("SIGKILL");
    await ended;
  };
  try {
    const { url, api_key: apiKey } = await eventually(
      () => {
        assert.equal(world.child.exitCode, null, output);
        const file = world.pathOf(path.join(dataDir, "credentials.json"));
        return file === undefined ? undefined : readJson(file);
      },
      (credentials) => credentials !== undefined,
      { timeoutMs, what: "a server on a small disk" },
    ).then((credentials) => credentials as { url: string; api_key: string });
    const inside = (name: string) => path.join(world.pathOf(containedDirectory) as string, name);
    return {
      api: createClient({ baseUrl: url, apiKey }),
      url,
      dataDir: inside("data"),
      fill: () => fillDisk(inside("ballast")),
      makeSpace: () => rmSync(inside("ballast")),
      [Symbol.asyncDispose]: end,
    };
  } catch (error) {
    await end();
    throw error;
  }
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return undefined; // The server has not written the whole file yet.
  }
}

const create = ({ api }: SmallServer, repository: AgentRepository) =>
  api.createDeployment({
    body: {
      ...{ name: `agent-${randomUUID()}`, source: "github" },
      source_config: { repo_url: repository.url, build_on_push: false, deployment_type: "dev" },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });

async function versionOf({ api, url }: SmallServer, id: string): Promise<string> {
  const deployment = await api.getDeployment({ deployment_id: id });
  const answer = await fetch(`${url}${new URL(deployment.url ?? "").pathname}/version`);
  assert.equal(answer.status, 200);
  return ((await answer.json()) as { version: string }).version;
}

const isRefusedForSpace = (error: unknown) =>
  error instanceof ApiFailure && error.status === 503 && error.message.includes("disk of the server is full");

async function deploy({ api }: SmallServer, id: string, ref: string): Promise<string> {
  const body = { source_revision_config: { repo_ref: ref } };
  const { latest_revision_id: revisionId } = await api.patchDeployment({ deployment_id: id, body });
  const revision = { deployment_id: id, revision_id: revisionId as string };
  return (await api.waitForRevision(revision, { timeoutMs })).status;
}

async function check(args: string[]): Promise<void> {
  await using repository = await createAgentRepository(nodeAgent("one"));
  await using server = await startSmallServer(args);
  const { api } = server;
  const { id, latest_revision_id: first } = await create(server, repository);
  const began = await api.waitForRevision({ deployment_id: id, revision_id: first as string }, { timeoutMs });
  assert.equal(began.status, "DEPLOYED", began.status_message ?? "");
  const { upload_url: uploadUrl } = await api.createUploadUrl({ deployment_id: id });
  const archive = new Blob([new Uint8Array(gzipSync(randomBytes(4 * 1024 * 1024)))]);

  // Deploys are in progress when the disk becomes full.
  await repository.commit(nodeAgent("two"));
  const accepted = await Promise.all([1, 2].map(() => create(server, repository)));
  await assert.rejects(async () => {
    for (let turn = 0; turn < 100; turn += 1) {
      server.fill();
      accepted.push(await create(server, repository));
    }
  }, isRefusedForSpace);
  assert.equal(await versionOf(server, id), "one", "agents and reads must keep working");
  // A failed write frees some space. One upload may fit into it, but then the next one does not.
  const upload = () => {
    server.fill();
    // Shorter than Retry-After, because the client would otherwise wait for space.
    return api.uploadArchive(uploadUrl, archive, { deadlineMs: 20_000 }).catch((error: unknown) => error);
  };
  await eventually(upload, isRefusedForSpace, { timeoutMs });
  const readFree = async () => {
    server.fill();
    const metrics = await (await fetch(`${server.url}/metrics`)).text();
    return Number(/^pierhead_data_directory_free_bytes (\d+)$/m.exec(metrics)?.[1]);
  };
  await eventually(readFree, (bytes) => bytes < 1024 * 1024);
  assert.match(await doctorOn(server), /disk .*full/);
  assert.equal(await versionOf(server, id), "one");

  server.makeSpace();
  for (const made of accepted) {
    const revision = { deployment_id: made.id, revision_id: made.latest_revision_id as string };
    const { status, status_message: message } = await api.waitForRevision(revision, { timeoutMs });
    assert.ok(isFinal(status));
    if (status === "DEPLOYED") assert.equal(await versionOf(server, made.id), "two");
    else assert.match(message ?? "", /disk|space/, `${status}: ${message}`);
  }
  assert.equal(await deploy(server, id, "main"), "DEPLOYED", "deploys must succeed again without a restart");
  assert.equal(await versionOf(server, id), "two");
  await api.uploadArchive(uploadUrl, archive);
  // A backup reads every row of every table that it contains, so it finds damaged ones.
  const backup = await api.downloadBackup();
  assert.ok((await new Response(backup).arrayBuffer()).byteLength > 1_000);
}

async function doctorOn({ dataDir }: SmallServer): Promise<string> {
  const run = promisify(execFile);
  const args = [path.resolve("src/main.ts"), "doctor", "--data-dir", dataDir];
  const env = { ...process.env, NO_COLOR: "1" };
  return run(process.execPath, args, { env }).then(
    () => "doctor found nothing",
    ({ stdout, stderr }: { stdout: string; stderr: string }) => stdout + stderr,
  );
}

test("rejects writes on a full disk while agents keep answering, and recovers when there is space", async (context) => {
  if (!canContain()) return context.skip(containedSkipped);
  await check(["256m", "up"]);
});

test("rejects writes and recovers when PostgreSQL is on the full disk as well", async (context) => {
  if (!canContain()) return context.skip(containedSkipped);
  if (findBinaries() === undefined) return context.skip(postgresSkipped);
  await check(["384m", "--postgres", "up"]);
});
