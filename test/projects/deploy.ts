import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { text as streamText } from "node:stream/consumers";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { packArchive } from "../../src/cli/source/archive.ts";
import { listFiles } from "../../src/cli/source/list-files.ts";
import type { Client } from "../../src/client/client.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { initialize } from "./server-project.ts";
import type { Project, Question } from "./table.ts";

/** Longer than the slowest step: installing packages that no cache has, on a loaded machine. Measures nothing. */
const timeoutMs = 550_000;

/** Two installations at a time keep two cores busy. */
const concurrency = 2;

/** Adds a test for each project. All of them share the server that `start` starts, and its package caches. */
export function testProjects(projects: Project[], start: () => Promise<TestServer> = startTestServer): void {
  describe("projects", { concurrency }, () => {
    let started: Promise<TestServer> | undefined;
    let left = projects.length;
    for (const project of projects) {
      test(`deploys ${project.name}`, async () => {
        started ??= start();
        try {
          await deploy((await started).client, project);
        } finally {
          left -= 1;
          if (left === 0) await (await started)[Symbol.asyncDispose]();
        }
      });
    }
  });
}

async function deploy(client: Client, project: Project): Promise<void> {
  const { id, latest_revision_id: first } = await client.createDeployment({
    body: {
      name: project.name.replaceAll(/[^A-Za-z0-9.]+/g, "-").replace(/-$/, ""),
      source: "internal_source",
      source_config: {},
      source_revision_config: {},
      secrets: Object.entries(project.secrets ?? {}).map(([name, value]) => ({ name, value })),
    },
  });
  assert.equal(first, null);
  const ids = { deployment_id: id };
  const uploaded = await client.patchDeployment({
    ...ids,
    body: {
      source_revision_config: {
        source_tarball_path: await upload(client, ids, project),
        langgraph_config_path: project.configPath ?? "langgraph.json",
      },
    },
  });
  assert.ok(uploaded.latest_revision_id);
  const revision = await client.waitForRevision({ ...ids, revision_id: uploaded.latest_revision_id }, { timeoutMs });
  const log = await buildLog(client, { ...ids, revision_id: revision.id });
  if ("buildFails" in project.ask) {
    assert.equal(revision.status, "BUILD_FAILED", log);
    assert.match(revision.status_message ?? "", project.ask.buildFails);
  } else {
    assert.equal(revision.status, "DEPLOYED", `${revision.status_message}\n${log}`);
    const { url } = await client.getDeployment(ids);
    for (const question of project.ask) {
      if (question === "turns") await takeTurns(url as string);
      else if (question === "events") await initializeOverEvents(url as string);
      else await check(url as string, question);
    }
  }
  for (const line of project.log ?? []) assert.match(log, line);
  await client.deleteDeployment(ids);
  await client.waitForDeletion(ids, { timeoutMs });
}

async function buildLog(client: Client, ids: { deployment_id: string; revision_id: string }): Promise<string> {
  const { logs } = await client.getRevisionLogs({ ...ids, type: "build", limit: 1000 });
  return logs.map(({ message }) => message).join("\n");
}

/** Sends two messages in one thread and reads the state back. */
async function takeTurns(url: string): Promise<void> {
  const send = async (pathname: string, body: object) => {
    const headers = { "content-type": "application/json" };
    const response = await fetch(url + pathname, { method: "POST", headers, body: JSON.stringify(body) });
    const text = await response.text();
    assert.equal(response.status, 200, `${pathname}: ${text}`);
    return JSON.parse(text);
  };
  const { thread_id: threadId } = await send("/threads", {});
  const ask = async (content: string) => {
    const input = { messages: [{ role: "user", content }] };
    const { messages } = await send(`/threads/${threadId}/runs/wait`, { assistant_id: "agent", input });
    return messages?.at(-1).content;
  };
  assert.equal(await ask("one"), "1: one");
  assert.equal(await ask("two"), "2: two");
  const response = await fetch(`${url}/threads/${threadId}/state`);
  const state = (await response.json()) as { values: { messages: { content: string }[] } };
  assert.deepEqual(
    state.values.messages.map(({ content }) => content),
    ["one", "1: one", "two", "2: two"],
  );
}

/** Opens a session of the MCP over server-sent events, as its clients did before version 2025-03-26. */
async function initializeOverEvents(url: string): Promise<void> {
  const stop = new AbortController();
  const stream = await fetch(`${url}/sse`, { headers: { accept: "text/event-stream" }, signal: stop.signal });
  const received: string[] = [];
  for await (const chunk of stream.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    received.push(chunk);
    const text = received.join("");
    const messages = /event: endpoint\r?\ndata: (\S+)/.exec(text)?.[1];
    if (messages === undefined) continue;
    if (/"serverInfo"/.test(text)) break;
    const headers = { "content-type": "application/json" };
    const response = await fetch(new URL(messages, `${url}/sse`), {
      method: "POST",
      headers,
      body: JSON.stringify(initialize),
    });
    assert.equal(response.status, 202, await response.text());
  }
  stop.abort();
  assert.match(received.join(""), /"serverInfo"/);
}

async function check(url: string, question: Question): Promise<void> {
  const {
    path: pathname,
    method = question.body === undefined ? "GET" : "POST",
    headers,
    body,
    status = 200,
  } = question;
  const answer = await send(url + pathname, {
    method,
    headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
    body: body === undefined ? "" : JSON.stringify(body),
  });
  const { text } = answer;
  assert.equal(answer.status, status, `${method} ${pathname}: ${text}`);
  assert.match(text, question.answers, `${method} ${pathname}`);
}

/** Sends a request. Unlike fetch, node:http sends the `host` of a question. */
async function send(
  url: string,
  { body, ...options }: { method: string; headers: Record<string, string>; body: string },
): Promise<{ status: number | undefined; text: string }> {
  const request = httpRequest(url, options);
  request.end(body);
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return { status: response.statusCode, text: await streamText(response) };
}

/** Uploads a project as `pierhead deploy DIR` does. */
async function upload(client: Client, ids: { deployment_id: string }, project: Project): Promise<string> {
  const { name, directory = name, files = {}, prepare = [] } = project;
  const copy = await mkdtemp(path.join(tmpdir(), "pierhead-project-"));
  try {
    await cp(path.join(import.meta.dirname, directory), copy, { recursive: true });
    for (const [file, content] of Object.entries(files)) {
      await mkdir(path.dirname(path.join(copy, file)), { recursive: true });
      await writeFile(path.join(copy, file), typeof content === "string" ? content : JSON.stringify(content, null, 2));
    }
    for (const [program = "", ...args] of prepare) await promisify(execFile)(program, args, { cwd: copy });
    const { signal } = new AbortController();
    await using archive = await packArchive(copy, (await listFiles(copy, signal)).files, signal);
    const { upload_url: url, object_path: objectPath } = await client.createUploadUrl(ids);
    await client.uploadArchive(url, archive.blob);
    return objectPath;
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}
