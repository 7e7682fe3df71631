import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { eventually } from "../support/eventually.ts";
import { type Desk, openDesk } from "./desk.ts";
import type { Ended, PublicClient } from "./program.ts";
import { mintKey, strangersDeployment, switchDeploymentsOff } from "./tenants.ts";

/** Far above the slowest step, a cold install of the agent server on a loaded machine; it measures nothing. */
const timeoutMs = 400_000;

const example = "examples/hello-agent";

/** What both command lines called `langgraph` promise their users, kept by our server. */
export function testLanggraphCli(name: string, client: PublicClient): void {
  test(`${name}: a project is deployed, deployed again, looked at and deleted`, async (context) => {
    await using desk = await openDesk(client, example);
    const { pierhead } = desk;
    let id = "";
    let url = "";

    await context.test("the first deploy ends with the address of an agent that answers", async () => {
      const ended = await desk.run(["deploy", "--remote", "--no-input", "--json", "--name", "hello"]);
      assert.equal(ended.code, 0, show(ended));
      const result = eventsOf(ended).find(({ event }) => event === "result") ?? {};
      assert.equal(result["status"], "succeeded", show(ended));
      id = String(result["deployment_id"]);
      url = String(result["url"]);
      assert.ok(url.startsWith(`${pierhead.url}/d/`), url);
      assert.equal(await ask(url, "What is 6 * 7?"), "6 * 7 = 42");
      const page = await fetch(String(result["status_url"]));
      assert.equal(page.status, 200);
      assert.match(await page.text(), /<title>Pierhead<\/title>/);
    });

    await context.test(
      "a second deploy makes a revision of changed code and secrets, without a container engine",
      async () => {
        const code = await readFile(path.join(desk.projectDir, "src/agent.ts"), "utf8");
        await desk.write({
          "src/agent.ts": code.replace("`Hello$", "`$" + "{process.env['GREETING']}$"),
          ".env": "GREETING=Bonjour\nLANGSMITH_PROJECT=ignored by the client\nEMPTY=\n",
        });
        const ended = await desk.run(["deploy", "--no-input", "--name", "hello"]);
        assert.equal(ended.code, 0, show(ended));
        assert.match(ended.stdout, /Using remote build instead/);
        assert.match(ended.stdout, new RegExp(`Found existing deployment \\(ID: ${id}\\)`));
        assert.match(ended.stdout, /Deployment successful!/);
        assert.match(await ask(url, "hello"), /^Bonjour!/);
        const { secrets } = await pierhead.client.getDeployment({ deployment_id: id });
        assert.deepEqual(secrets, [{ name: "GREETING", value: "Bonjour" }]);
      },
    );

    await context.test("while it builds its log is shown, each line once", () => showsBuildLog(desk, id));

    await context.test("revisions: the newest serves, the others are shown as replaced", async () => {
      const ended = await desk.run(["deploy", "revisions", "list", id]);
      assert.equal(ended.code, 0, show(ended));
      const statuses = [...ended.stdout.matchAll(/^[0-9a-f-]{36} +(\w+) +\S/gm)].map((match) => match[1]);
      assert.deepEqual(statuses, ["DEPLOYED", "REPLACED", "REPLACED"]);
      const limited = await desk.run(["deploy", "revisions", "list", id, "--limit", "1"]);
      assert.equal(limited.stdout.match(/^[0-9a-f]{8}-/gm)?.length, 1);
    });

    await context.test("list shows id, name and address, and can be narrowed by name", async () => {
      const all = await desk.run(["deploy", "list"]);
      assert.match(all.stdout, new RegExp(`^${id} +hello +${url} *$`, "m"), show(all));
      const some = await desk.run(["deploy", "list", "--name-contains", "ELL"]);
      assert.match(some.stdout, new RegExp(id));
      const none = await desk.run(["deploy", "list", "--name-contains", "other"]);
      assert.match(none.stdout, /No deployments found/);
    });

    await context.test("logs of the build and of the running agent are shown, narrowed and followed", () =>
      showsLogs(desk, id, url),
    );

    await context.test("the same source again builds nothing, and the build log says so", async () => {
      const { source_revision_config } = await pierhead.client.getDeployment({ deployment_id: id });
      const patched = await pierhead.client.patchDeployment({
        deployment_id: id,
        body: { source_revision_config: { source_tarball_path: source_revision_config.source_tarball_path } },
      });
      await pierhead.client.waitForRevision({ deployment_id: id, revision_id: String(patched.latest_revision_id) });
      const ended = await desk.run(["deploy", "logs", "--name", "hello", "--type", "build"]);
      assert.match(ended.stdout, /built before/, show(ended));
    });

    await context.test("a delete takes it away for good", async () => {
      const ended = await desk.run(["deploy", "delete", id, "--force"]);
      assert.equal(ended.code, 0, show(ended));
      assert.match((await desk.run(["deploy", "list"])).stdout, /No deployments found/);
      await pierhead.client.waitForDeletion({ deployment_id: id }, { timeoutMs });
      const again = await desk.run(["deploy", "delete", id, "--force"]);
      assert.equal(again.code, 1, show(again));
      assert.match(show(again), new RegExp(`404.*Deployment ID ${id} not found`));
    });

    await context.test("it has talked to nobody but this server", async () => {
      assert.deepEqual(await desk.places(), [new URL(pierhead.url).host]);
      // Only what is seen can be missed: with its usage reports on, the client does try another host.
      await desk.run(["deploy", "--remote", "--no-input", "--no-wait", "--name", "other"], {
        LANGGRAPH_CLI_NO_ANALYTICS: "0",
      });
      assert.ok((await desk.places()).length > 1);
    });
  });

  test(`${name}: what breaks ends with exit code 1 and its reason`, async (context) => {
    await using desk = await openDesk(client, example, { prefix: "/api-host" });
    const deploy = ["deploy", "--remote", "--no-input", "--name", "hello"];

    await context.test("a build that fails shows its last lines and its exit code", async () => {
      await desk.write({ "fail.mjs": "console.error('the model is missing'); process.exit(7);" });
      const ended = await desk.run([...deploy, "--build-command", "node fail.mjs"]);
      assert.equal(ended.code, 1, show(ended));
      assert.match(ended.stdout, /the model is missing/);
      assert.match(ended.stdout, /exit code 7/);
      assert.match(ended.stdout, /Deployment failed/);
    });

    await context.test("an agent that cannot start fails the deploy", async () => {
      await desk.write({ "fail.mjs": "", "src/agent.ts": "throw new Error('no database');" });
      const ended = await desk.run([...deploy, "--json"]);
      assert.equal(ended.code, 1, show(ended));
      assert.equal(eventsOf(ended).at(-1)?.["status"], "failed");
      // That it failed is told by itself, before its lines or after them.
      await eventually(
        () => desk.run(["deploy", "logs", "--name", "hello"]),
        ({ stdout }) => stdout.includes("no database"),
        { what: "the agent's last words" },
      );
    });

    await context.test("a key that is not valid is refused", async () => {
      for (const args of [deploy, ["deploy", "list"]]) {
        const ended = await desk.run(args, { LANGSMITH_API_KEY: "lsv2_pt_unknown" });
        assert.equal(ended.code, 1, show(ended));
        assert.match(show(ended), /401.*Invalid token/);
      }
    });

    await context.test("deployments of others, and ones that never were, are not found", async () => {
      const theirs = await strangersDeployment(desk.pierhead);
      for (const id of [theirs, randomUUID()]) {
        const attempts = [
          ["deploy", "--remote", "--no-input", "--deployment-id", id],
          ["deploy", "revisions", "list", id],
          ["deploy", "logs", "--deployment-id", id],
          ["deploy", "delete", id, "--force"],
        ];
        for (const args of attempts) {
          const ended = await desk.run(args);
          assert.equal(ended.code, 1, show(ended));
          assert.match(show(ended), new RegExp(`404.*Deployment ID ${id} not found`));
        }
      }
    });

    await context.test("a key of an organization needs a workspace: by variable, by answer, or a hint", () =>
      asksForWorkspace(desk, deploy),
    );

    await context.test("a workspace whose deployments are switched off is told where to look", async () => {
      const key = await mintKey(desk.pierhead, "workspace");
      await switchDeploymentsOff(desk.pierhead);
      const ended = await desk.run(["deploy", "list"], { LANGSMITH_API_KEY: key });
      assert.equal(ended.code, 1, show(ended));
      assert.match(show(ended), /not enabled for this organization/);
    });

    await context.test("it has talked to nobody but this server", async () => {
      assert.deepEqual(await desk.places(), [new URL(desk.pierhead.url).host]);
    });
  });
}

/** A build that goes on when it is told to, so that the client asks for its log again and again meanwhile. */
async function showsBuildLog(desk: Desk, id: string): Promise<void> {
  const [first, second] = ["first", "second"].map((name) => path.join(desk.tempDir, name)) as [string, string];
  await desk.write({
    "slow.mjs": `
import { existsSync } from "node:fs";
for (const [said, file] of ${JSON.stringify([
      ["one is done", first],
      ["two is done", second],
    ])}) {
  console.log(said);
  while (!existsSync(file)) await new Promise((resolve) => setTimeout(resolve, 50));
}`,
  });
  const args = ["deploy", "--remote", "--no-input", "--deployment-id", id, "--verbose"];
  const running = desk.start([...args, "--build-command", "node slow.mjs"]);
  const shows = (text: string) =>
    eventually(
      () => running.output,
      (output) => output.includes(text),
      { what: text, timeoutMs },
    );
  await shows("| one is done");
  await writeFile(first, "");
  await shows("| two is done");
  await writeFile(second, "");
  const ended = await running.ended;
  assert.equal(ended.code, 0, show(ended));
  for (const line of ["one is done", "two is done", "Step 4/6: Build"]) {
    assert.equal(ended.stdout.split(`| ${line}\n`).length, 2, show(ended));
  }
}

async function showsLogs(desk: Desk, id: string, url: string): Promise<void> {
  const build = await desk.run(["deploy", "logs", "--name", "hello", "--type", "build"]);
  assert.equal(build.code, 0, show(build));
  assert.match(build.stdout, /two is done/);
  assert.ok(build.stdout.indexOf("Step 1/6") < build.stdout.indexOf("Step 6/6"), "oldest first");

  const mark = (name: string) => fetch(`${url}/no-such-${name}`).then((answer) => answer.text());
  const logs = ["deploy", "logs", "--deployment-id", id];
  await mark("path");
  const found = await eventually(
    () => desk.run([...logs, "--query", "NO-SUCH-path"]),
    ({ stdout }) => stdout.includes("GET /no-such-path"),
    { what: "the agent's line" },
  );
  assert.ok(!found.stdout.includes("Initializing"), show(found));
  assert.match((await desk.run([...logs, "--level", "critical"])).stdout, /No log entries found/);
  const later = new Date(Date.now() + 3_600_000).toISOString();
  assert.match((await desk.run([...logs, "--start-time", later])).stdout, /No log entries found/);

  const following = desk.start([...logs, "--follow", "--limit", "20"]);
  for (const name of ["one", "two", "three"]) {
    await mark(name);
    await eventually(
      () => following.output,
      (output) => output.includes(`<-- GET /no-such-${name}`),
      { what: `line ${name}`, timeoutMs },
    );
  }
  following.interrupt();
  const ended = await following.ended;
  for (const name of ["one", "two"]) {
    assert.equal(ended.stdout.split(`<-- GET /no-such-${name}`).length, 2, "each line once");
  }
}

async function asksForWorkspace(desk: Desk, deploy: string[]): Promise<void> {
  const tenantId = desk.pierhead.server.credentials.workspaceId;
  const key = { LANGSMITH_API_KEY: await mintKey(desk.pierhead, "organization") };
  const hinted = await desk.run(deploy, key);
  assert.equal(hinted.code, 1, show(hinted));
  assert.match(show(hinted), /LANGSMITH_TENANT_ID/);

  const named = await desk.run(["deploy", "list"], { ...key, LANGSMITH_TENANT_ID: tenantId });
  assert.equal(named.code, 0, show(named));
  assert.match(named.stdout, /hello/);

  const asking = desk.start(["deploy", "list"], key);
  await eventually(
    () => asking.output,
    (output) => output.includes("Workspace ID"),
    { what: "the question", timeoutMs },
  );
  asking.answer(`${tenantId}\n`);
  const answered = await asking.ended;
  assert.equal(answered.code, 0, show(answered));
  assert.match(answered.stdout, /hello/);
}

/** JSON lines of `--json`. */
function eventsOf({ stdout }: Ended): Record<string, unknown>[] {
  const lines = stdout.split("\n").filter((line) => line.startsWith("{"));
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** One run on a thread of its own; the agent's last message. */
async function ask(url: string, content: string): Promise<string> {
  const post = (pathname: string, body: object) =>
    fetch(url + pathname, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    }).then((answer) => answer.json());
  const { thread_id: threadId } = (await post("/threads", {})) as { thread_id: string };
  const run = { assistant_id: "agent", input: { messages: [{ role: "user", content }] } };
  const { messages } = (await post(`/threads/${threadId}/runs/wait`, run)) as { messages: { content: string }[] };
  return messages.at(-1)?.content ?? "";
}

const show = ({ code, stdout, stderr }: Ended) => `exit code ${code}\n${stdout}\n${stderr}`;
