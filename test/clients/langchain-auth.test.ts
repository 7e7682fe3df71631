import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { startOAuthServer } from "../support/oauth-server.ts";
import { startTestServer } from "../support/server.ts";
import { langgraphCliPython } from "./install.ts";
import { connectionsIn } from "./program.ts";

const here = import.meta.dirname;

/** Plays the user's browser: follows the address and returns to the redirect URI with these parameters. */
async function comeBack(address: string, answer: Record<string, string>): Promise<void> {
  const sent = new URL(address).searchParams;
  const back = new URL(sent.get("redirect_uri") ?? "");
  back.search = new URLSearchParams({ ...answer, state: sent.get("state") ?? "" }).toString();
  await (await fetch(back)).text();
}

for (const prefix of ["", "/api-host"]) {
  test(`langchain-auth 0.3.0 creates a provider, signs in, gets a token, is denied and deletes both, at "${prefix}/"`, async () => {
    await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "none" });
    await using as = await startOAuthServer();
    const tempDir = await mkdtemp(path.join(tmpdir(), "pierhead-langchain-auth-"));
    const connections = path.join(tempDir, "connections");
    const program = [path.join(here, "python/oauth_story.py"), pierhead.url + prefix, as.url];
    const story = spawn(path.join(here, ".venv/bin/python"), program, {
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...langgraphCliPython.watched,
        HOME: tempDir,
        LANGSMITH_API_KEY: pierhead.apiKey,
        PIERHEAD_CONNECTIONS_FILE: connections,
      },
    });
    try {
      const failed = text(story.stderr);
      const ended = once(story, "exit");
      const printed: Record<string, unknown>[] = [];
      for await (const line of createInterface({ input: story.stdout })) {
        const said = JSON.parse(line) as Record<string, unknown>;
        printed.push(said);
        const isSecond = printed.filter(({ url }) => url !== undefined).length > 1;
        if (typeof said["url"] === "string")
          await comeBack(said["url"], isSecond ? { error: "access_denied" } : { code: "c" });
      }
      assert.deepEqual([await failed, (await ended)[0]], ["", 0]);
      const all = Object.assign({}, ...printed) as Record<string, string>;
      assert.deepEqual([all["created"], all["listed"]], ["sdk", ["sdk"]]);
      assert.match(all["again"] ?? "", /^HTTP 409: .*already exists/);
      assert.deepEqual(
        printed.filter(({ url }) => url !== undefined).map(({ status }) => status),
        ["pending", "pending"],
      );
      assert.match(all["waited"] ?? "", /^access-\d+$/);
      assert.deepEqual([all["kept"], all["known"]], [all["waited"], "completed"]);
      assert.match(all["denied"] ?? "", /not found or has expired/);
      assert.match(all["late"] ?? "", /timed out after 1 seconds/);
      assert.deepEqual([all["exists"], all["revoked"], all["renamed"]], [false, "0 tokens deleted.", "Renamed"]);
      assert.match(all["deleted"] ?? "", /sdk/);
      assert.match(all["gone"] ?? "", /^HTTP 404: /);
      assert.deepEqual(await connectionsIn(connections), [new URL(pierhead.url).host]);
    } finally {
      story.kill("SIGKILL");
      await rm(tempDir, { recursive: true, force: true });
    }
  });
}
