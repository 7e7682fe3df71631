import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { after, before, test } from "node:test";
import { stripVTControlCharacters } from "node:util";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { commandTable } from "../../src/cli/command-table.ts";
import { answerSchema, describedCommands } from "../../src/cli/tools/json-schema.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { nodeAgent } from "../support/agent-repository.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { createDirectory, type RunOptions, runCli } from "./run-cli.ts";

/** What `--json` prints, and what a terminal shows, of each command on a real server. */
let server: TestServer;
before(async () => {
  server = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
});
after(() => server[Symbol.asyncDispose]());

const described = describedCommands(commandTable);
const checks = new Map<string, ValidateFunction>();

/** Returns the check of an answer. It refuses keys of ours that the schema does not name; types of the API may grow. */
function checkOf(words: string): ValidateFunction {
  const known = checks.get(words);
  if (known !== undefined) return known;
  const notation = described.get(words);
  assert.ok(notation !== undefined, `${words} has no schema`);
  const { $defs, ...answer } = answerSchema(notation);
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  const check = ajv.compile({ ...(closed(answer) as object), $defs });
  checks.set(words, check);
  return check;
}

function closed(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(closed);
  if (typeof node !== "object" || node === null) return node;
  const inner = Object.fromEntries(Object.entries(node).map(([key, value]) => [key, closed(value)]));
  return "properties" in node ? { ...inner, additionalProperties: false } : inner;
}

const lists =
  /^(admin .*(list|show|audit)|alerts (list|rules)|auth .*(list|presets|history)|context( list)?|deliveries|env list|events|groups (list|show)|integrations (list|app show)|list|ps|status|webhooks (list|deliveries)|whoami|why)$/;

test("every answer of --json is as its schema says, and no table is wider than the terminal", async (t) => {
  const config = await createDirectory({
    ...{ "pierhead.yaml": "deployments: {}\n", "names.env": "LOG_LEVEL=info\n" },
    ...nodeAgent("one"),
  });
  await using _ = config;
  const hooks = createServer((_, response) => response.end()).listen(0, "127.0.0.1");
  t.after(() => hooks.close());
  await once(hooks, "listening");
  const receiver = { url: `http://127.0.0.1:${(hooks.address() as AddressInfo).port}/an/address/that/is/rather/long` };
  const env = { PIERHEAD_CONFIG_DIR: config.directory };
  const seen = new Set<string>();
  const problems: string[] = [];
  /** Runs a command with `--json` and checks each document. @param words Command, without its arguments. */
  const run = async <T = Record<string, never>>(
    words: string,
    args: string[] = [],
    more: RunOptions = {},
  ): Promise<T> => {
    const argv = [...words.split(" "), ...args, "--data-dir", server.dataDir];
    const options = { env, cwd: config.directory, ...more };
    const ran = await runCli([...argv, "--json"], options);
    const hasChanges = words === "plan" && ran.code === 2;
    if (ran.code !== 0 && !hasChanges) problems.push(`${argv.join(" ")} failed: ${ran.stdout}${ran.stderr}`);
    const check = checkOf(words);
    const isStream = words === "logs" || words === "events";
    const documents = isStream ? ran.stdout.split("\n").filter(Boolean) : [ran.stdout];
    for (const document of documents) {
      if (check(JSON.parse(document))) seen.add(words);
      else problems.push(`${argv.join(" ")}: ${JSON.stringify(check.errors)}\n${document}`);
    }
    for (const columns of lists.test(words) ? [80, 110] : []) {
      const { stdout } = await runCli(argv, { ...options, isTTY: true, columns });
      const rows = stdout.split("\n").map(stripVTControlCharacters);
      // Sentences wrap like any text. Rows of a table have several gaps.
      const wide = rows.filter((row) => row.length > columns && row.trim().split(/ {2,}/).length > 2);
      problems.push(...wide.map((row) => `${words} at ${columns} columns: ${row}`));
    }
    return JSON.parse(documents[0] ?? "null") as T;
  };
  type Named = { id: string };

  const name = "a-deployment-with-a-name-that-is-quite-long";
  assert.deepEqual(Object.keys(await run("deploy", ["node-server", "--name", name, "--dry-run"])), [
    "dry_run",
    "changes",
    "effects",
  ]);
  assert.deepEqual((await run<{ deployments: [] }>("list")).deployments, []);
  await run("deploy", ["node-server", "--name", name]);
  await run("list");
  await run("status", [name]);
  await run("status", [name, "--watch"]);
  await run("ps", [name]);
  await run("env set", [name, "TOKEN"], { stdin: "hunter2\n" });
  await run("env import", [name, "names.env"]);
  await run("env", [name]);
  await run("env list", [name, "--reveal"]);
  const served = async () => (await server.client.listDeployments({ name })).resources[0];
  const before = await served();
  for (const [words, ...args] of [
    ["env set", name, "TOKEN"],
    ["env unset", name, "TOKEN"],
    ["env import", name, "names.env"],
    ["scale", name, "3"],
    ["change", name, "--size", "M"],
    ["rollback", name],
    ["redeploy", name],
    ["restart", name],
    ["cancel", name],
    ["delete", name],
    ["deploy", "node-server", "--name", name],
    ["deploy", "node-server", "--name", "other"],
    ["deploy", config.directory, "--name", "fresh"],
  ] as [string, ...string[]][]) {
    const { dry_run } = await run<{ dry_run: boolean }>(words, [...args, "--dry-run"], { stdin: "other\n" });
    assert.equal(dry_run, true, words);
  }
  const refused = await runCli(["retry", name, "--dry-run", "--data-dir", server.dataDir]);
  assert.match(refused.stderr, /did not fail/);
  assert.deepEqual(await served(), before, "a dry run changes nothing");
  assert.equal((await server.client.listDeployments({})).resources.length, 1, "a dry run creates nothing");
  await run("env unset", [name, "LOG_LEVEL"]);
  await run("groups set", ["a-group-of-keys", "OPENAI_API_KEY"], { stdin: "hunter2\n" });
  await run("groups import", ["a-group-of-keys", "names.env", "--plain"]);
  await run("groups use", [name, "a-group-of-keys"]);
  await run("groups list");
  await run("groups show", ["a-group-of-keys"]);
  await run("groups unset", ["a-group-of-keys", "LOG_LEVEL"]);
  await run("groups deploy", ["a-group-of-keys"]);
  await run("groups use", [name]);
  await run("groups delete", ["a-group-of-keys"]);
  await run("scale", [name, "2"]);
  await run("scale", [name, "2"]);
  await run("change", [name, "--size", "M"]);
  await run("rollback", [name, "--yes"]);
  await run("restart", [name]);
  await run("redeploy", [name]);
  await run("cancel", [name]);
  await run("why", [name]);
  await run("open", [name]);
  await run("logs", [name]);
  await run("logs", [name, "--build"]);
  await run("logs", ["--all"]);
  await run("events", [name]);
  await run("apply", ["--dry-run"]);
  await run("plan");
  await run("pull", [name, "--file", "pulled.yaml"]);
  await writeFile(
    path.join(config.directory, "pierhead.yaml"),
    `deployments:\n  ${name}:\n    source: internal_template\n    template: node-server\n    variables: { A: b }\n`,
  );
  await run("plan");
  await run("apply");

  await run("whoami");
  const { context } = await run<{ context: string }>("login", [server.url], { stdin: server.apiKey });
  await run("context");
  await run("context list");
  await run("context use", ["local"]);
  await run("logout", [context]);
  await run("alerts list", ["--all"]);
  await run("alerts rules");
  await run("alerts set", ["failed", "--on"]);
  await run("alerts mute", [name]);
  await server.server.db.query(sql`
    insert into alerts (id, tenant_id, subject_id, subject, kind, state, message, notified)
    select gen_random_uuid(), id, 'k-1', 'ci', 'key_expiry', 'firing', 'The API key ci expires.', true from workspaces limit 1`);
  await run("alerts mute", ["--about", "ci"]);
  const { id: webhook } = await run<Named>("webhooks create", [receiver.url, "--description", "what this is for"]);
  await run("webhooks list");
  await run("webhooks update", [webhook, "--disable"]);
  await run("webhooks update", [webhook, "--enable"]);
  await run("webhooks secret", [webhook]);
  await run("webhooks test", [webhook]);
  const { deliveries } = await run<{ deliveries: Named[] }>("webhooks deliveries", [webhook]);
  await run("webhooks redeliver", [webhook, deliveries[0]?.id ?? ""]);
  await run("webhooks delete", [webhook, "--yes"]);
  await run("auth providers presets");
  const oauth = [
    "--client-id",
    "c",
    "--auth-url",
    "https://id.example.com/authorize",
    "--token-url",
    "https://id.example.com/token",
  ];
  await run("auth providers add", ["id", "--public", ...oauth]);
  await run("auth providers list");
  await run("auth providers show", ["id"]);
  await run("auth providers update", ["id", "--name", "Ours"]);
  await run("auth providers delete", ["id", "--yes"]);
  await run("auth tokens list", ["--user", "alice"]);
  await run("auth tokens history", ["--user", "alice"]);
  const { id: integration } = await run<Named>(
    "integrations create",
    ["https://git.example.com/acme", "--token-stdin"],
    { stdin: "t\n" },
  );
  await run("integrations list");
  await run("integrations secret", [integration]);
  await run("integrations delete", [integration, "--yes"]);
  const { id: organization } = await run<Named>("admin organizations create", ["Acme"]);
  await run("admin organizations list");
  await run("admin organizations update", [organization, "--name", "Acme 2"]);
  await run("admin workspaces create", ["search", "--organization", organization]);
  await run("admin workspaces list");
  await run("admin workspaces update", ["search", "--name", "found"]);
  await run("admin workspaces delete", ["found", "--yes"]);
  await run("admin organizations delete", [organization, "--yes"]);
  await run("admin keys create", ["a-key-for-continuous-integration"]);
  await run("admin keys list");
  await run("admin keys revoke", ["a-key-for-continuous-integration", "--yes"]);
  await run("admin members add", ["ada.with.a.long.address@example.org"]);
  await run("admin members list");
  await run("admin members update", ["ada.with.a.long.address@example.org", "--role", "deployer"]);
  await run("admin members remove", ["ada.with.a.long.address@example.org", "--yes"]);
  await run("admin tags add", ["team", "search", "billing"]);
  await run("admin tags list");
  await run("admin tags set", [name, "team=search"]);
  await run("admin tags show", [name]);
  await run("admin tags delete", ["team", "--yes"]);
  await run("admin quotas show");
  await run("admin quotas set", ["--deployments", "20"]);
  await run("admin audit");
  await run("api", ["GET", "/v2/deployments"]);
  await run("completion", ["bash"]);
  await run("init", ["begun", "--template", "node-server"]);
  await run("detect", [path.join(config.directory, "begun")]);
  await run("schema");
  await run("schema", ["admin", "keys", "list"]);
  await run("version");
  await run("doctor");
  await run("backup", [path.join(config.directory, "b.tar.gz")]);
  await run("delete", [name, "--yes"]);

  assert.deepEqual(problems, []);
  const unseen = [...described.keys()].filter((words) => !seen.has(words));
  t.diagnostic(`${seen.size} commands; not run here: ${unseen.join(", ")}`);
  assert.deepEqual(
    unseen.filter((words) => !elsewhere.has(words)),
    [],
  );
});

/** Commands that need an agent that answers, a browser, a code host, a database of an operator, or that run until Ctrl-C. test/e2e/exec.test.ts runs the last three. */
const elsewhere: ReadonlySet<string> = new Set([
  "push",
  ...["auth connect", "auth tokens delete", "database backup", "database restore", "dev", "integrations app create"],
  ...["integrations app delete", "integrations app show", "integrations attach", "integrations install"],
  ...["integrations pick", "integrations projects", "integrations repos", "invoke", "listener", "listener install"],
  "listener gateway",
  ...["migrate", "move", "pushes", "restore", "retry", "runs", "threads", "up", "exec", "shell", "port-forward"],
]);
