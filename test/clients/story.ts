import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { eventually } from "../support/eventually.ts";
import { type ClientMachine, setUpClientMachine } from "./client-machine.ts";
import type { Ended, PublicClient } from "./program.ts";
import { mintKey, strangersDeployment, switchDeploymentsOff } from "./tenants.ts";

/** Timeout far above the slowest step, a cold installation of the agent server on a loaded machine. It measures nothing. */
const timeoutMs = 400_000;

const example = "examples/hello-agent";

/** Registers the tests of what both command lines called `langgraph` promise their users. */
export function testLanggraphCli(name: string, client: PublicClient): void {
  test(`${name}: deploys a project twice, inspects it and deletes it`, async (context) => {
    await using machine = await setUpClientMachine(client, example);
    const { pierhead } = machine;
    let id = "";
    let url = "";

    await context.test("the first deploy ends with the address of an agent that answers", async () => {
      const ended = await machine.run(["deploy", "--remote", "--no-input", "--json", "--name", "hello"]);
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
      "a second deploy with changed code and secrets creates a revision, without a container engine",
      async () => {
        const code = await readFile(path.join(machine.projectDir, "src/agent.ts"), "utf8");
        await machine.write({
          "src/agent.ts": code.replace("`Hello$", "`$" + "{process.env['GREETING']}$"),
          ".env": "GREETING=Bonjour\nLANGSMITH_PROJECT=ignored by the client\nEMPTY=\n",
        });
        const ended = await machine.run(["deploy", "--no-input", "--name", "hello"]);
        assert.equal(ended.code, 0, show(ended));
        assert.match(ended.stdout, /Using remote build instead/);
        assert.match(ended.stdout, new RegExp(`Found existing deployment \\(ID: ${id}\\)`));
        assert.match(ended.stdout, /Deployment successful!/);
        assert.match(await ask(url, "hello"), /^Bonjour!/);
        const { secrets } = await pierhead.client.getDeployment({ deployment_id: id });
        assert.deepEqual(secrets, [{ name: "GREETING", value: "Bonjour" }]);
      },
    );

    await context.test("a build shows each line of its log once", () => showsBuildLog(machine, id));

    await context.test("revisions shows that the newest serves and the others are replaced", async () => {
      const ended = await machine.run(["deploy", "revisions", "list", id]);
      assert.equal(ended.code, 0, show(ended));
      const statuses = [...ended.stdout.matchAll(/^[0-9a-f-]{36} +(\w+) +\S/gm)].map((match) => match[1]);
      assert.deepEqual(statuses, ["DEPLOYED", "REPLACED", "REPLACED"]);
      const limited = await machine.run(["deploy", "revisions", "list", id, "--limit", "1"]);
      assert.equal(limited.stdout.match(/^[0-9a-f]{8}-/gm)?.length, 1);
    });

    await context.test("list shows id, name and address, and filters by name", async () => {
      const all = await machine.run(["deploy", "list"]);
      assert.match(all.stdout, new RegExp(`^${id} +hello +${url} *$`, "m"), show(all));
      const some = await machine.run(["deploy", "list", "--name-contains", "ELL"]);
      assert.match(some.stdout, new RegExp(id));
      const none = await machine.run(["deploy", "list", "--name-contains", "other"]);
      assert.match(none.stdout, /No deployments found/);
    });

    await context.test("logs shows, filters and follows the logs of the build and of the running agent", () =>
      showsLogs(machine, id, url),
    );

    await context.test("a deploy of unchanged source builds nothing, and the build log reports it", async () => {
      const { source_revision_config } = await pierhead.client.getDeployment({ deployment_id: id });
      const patched = await pierhead.client.patchDeployment({
        deployment_id: id,
        body: { source_revision_config: { source_tarball_path: source_revision_config.source_tarball_path } },
      });
      await pierhead.client.waitForRevision({ deployment_id: id, revision_id: String(patched.latest_revision_id) });
      const ended = await machine.run(["deploy", "logs", "--name", "hello", "--type", "build"]);
      assert.match(ended.stdout, /built before/, show(ended));
    });

    await context.test("delete removes the deployment", async () => {
      const ended = await machine.run(["deploy", "delete", id, "--force"]);
      assert.equal(ended.code, 0, show(ended));
      assert.match((await machine.run(["deploy", "list"])).stdout, /No deployments found/);
      await pierhead.client.waitForDeletion({ deployment_id: id }, { timeoutMs });
      const again = await machine.run(["deploy", "delete", id, "--force"]);
      assert.equal(again.code, 1, show(again));
      assert.match(show(again), new RegExp(`404.*Deployment ID ${id} not found`));
    });

    await context.test("the client connects only to this server", async () => {
      assert.deepEqual(await machine.connections(), [new URL(pierhead.url).host]);
      // Proves that the recording works: with usage reports enabled, the client does try another host.
      await machine.run(["deploy", "--remote", "--no-input", "--no-wait", "--name", "other"], {
        LANGGRAPH_CLI_NO_ANALYTICS: "0",
      });
      assert.ok((await machine.connections()).length > 1);
    });
  });

  test(`${name}: exits with code 1 and the reason of a failure`, async (context) => {
    await using machine = await setUpClientMachine(client, example, { prefix: "/api-host" });
    const deploy = ["deploy", "--remote", "--no-input", "--name", "hello"];

    await context.test("a failed build shows its last lines and its exit code", async () => {
      await machine.write({ "fail.mjs": "console.error('the model is missing'); process.exit(7);" });
      const ended = await machine.run([...deploy, "--build-command", "node fail.mjs"]);
      assert.equal(ended.code, 1, show(ended));
      assert.match(ended.stdout, /the model is missing/);
      assert.match(ended.stdout, /exit code 7/);
      assert.match(ended.stdout, /Deployment failed/);
    });

    await context.test("an agent that cannot start fails the deploy", async () => {
      await machine.write({ "fail.mjs": "", "src/agent.ts": "throw new Error('no database');" });
      const ended = await machine.run([...deploy, "--json"]);
      assert.equal(ended.code, 1, show(ended));
      assert.equal(eventsOf(ended).at(-1)?.["status"], "failed");
      // The failure is reported separately, before or after the agent's lines.
      await eventually(
        () => machine.run(["deploy", "logs", "--name", "hello"]),
        ({ stdout }) => stdout.includes("no database"),
        { what: "the agent's last lines" },
      );
    });

    await context.test("an invalid key is refused", async () => {
      for (const args of [deploy, ["deploy", "list"]]) {
        const ended = await machine.run(args, { LANGSMITH_API_KEY: "lsv2_pt_unknown" });
        assert.equal(ended.code, 1, show(ended));
        assert.match(show(ended), /401.*Invalid token/);
      }
    });

    await context.test("deployments of other workspaces and unknown ones are not found", async () => {
      const theirs = await strangersDeployment(machine.pierhead);
      for (const id of [theirs, randomUUID()]) {
        const attempts = [
          ["deploy", "--remote", "--no-input", "--deployment-id", id],
          ["deploy", "revisions", "list", id],
          ["deploy", "logs", "--deployment-id", id],
          ["deploy", "delete", id, "--force"],
        ];
        for (const args of attempts) {
          const ended = await machine.run(args);
          assert.equal(ended.code, 1, show(ended));
          assert.match(show(ended), new RegExp(`404.*Deployment ID ${id} not found`));
        }
      }
    });

    await context.test("a key of an organization needs a workspace, from a variable or an answer, or gets a hint", () =>
      asksForWorkspace(machine, deploy),
    );

    await context.test("a workspace with disabled deployments gets a hint", async () => {
      const key = await mintKey(machine.pierhead, "workspace");
      await switchDeploymentsOff(machine.pierhead);
      const ended = await machine.run(["deploy", "list"], { LANGSMITH_API_KEY: key });
      assert.equal(ended.code, 1, show(ended));
      assert.match(show(ended), /not enabled for this organization/);
    });

    await context.test("the client connects only to this server", async () => {
      assert.deepEqual(await machine.connections(), [new URL(machine.pierhead.url).host]);
    });
  });
}

/** Checks a build that waits for files between its lines, so that the client polls its log several times. */
async function showsBuildLog(machine: ClientMachine, id: string): Promise<void> {
  const [first, second] = ["first", "second"].map((name) => path.join(machine.tempDir, name)) as [string, string];
  await machine.write({
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
  const running = machine.start([...args, "--build-command", "node slow.mjs"]);
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

async function showsLogs(machine: ClientMachine, id: string, url: string): Promise<void> {
  const build = await machine.run(["deploy", "logs", "--name", "hello", "--type", "build"]);
  assert.equal(build.code, 0, show(build));
  assert.match(build.stdout, /two is done/);
  assert.ok(build.stdout.indexOf("Step 1/6") < build.stdout.indexOf("Step 6/6"), "oldest first");

  const mark = (name: string) => fetch(`${url}/no-such-${name}`).then((answer) => answer.text());
  const logs = ["deploy", "logs", "--deployment-id", id];
  await mark("path");
  const found = await eventually(
    () => machine.run([...logs, "--query", "NO-SUCH-path"]),
    ({ stdout }) => stdout.includes("GET /no-such-path"),
    { what: "the agent's line" },
  );
  assert.ok(!found.stdout.includes("Initializing"), show(found));
  assert.match((await machine.run([...logs, "--level", "critical"])).stdout, /No log entries found/);
  const later = new Date(Date.now() + 3_600_000).toISOString();
  assert.match((await machine.run([...logs, "--start-time", later])).stdout, /No log entries found/);

  const following = machine.start([...logs, "--follow", "--limit", "20"]);
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

async function asksForWorkspace(machine: ClientMachine, deploy: string[]): Promise<void> {
  const tenantId = machine.pierhead.server.credentials.workspaceId;
  const key = { LANGSMITH_API_KEY: await mintKey(machine.pierhead, "organization") };
  const hinted = await machine.run(deploy, key);
  assert.equal(hinted.code, 1, show(hinted));
  assert.match(show(hinted), /LANGSMITH_TENANT_ID/);

  const named = await machine.run(["deploy", "list"], { ...key, LANGSMITH_TENANT_ID: tenantId });
  assert.equal(named.code, 0, show(named));
  assert.match(named.stdout, /hello/);

  const asking = machine.start(["deploy", "list"], key);
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

/** Returns the JSON lines of `--json`. */
function eventsOf({ stdout }: Ended): Record<string, unknown>[] {
  const lines = stdout.split("\n").filter((line) => line.startsWith("{"));
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Runs the agent once on a new thread and returns its last message. */
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
