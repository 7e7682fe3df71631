import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { ApiKey, CreatedApiKey } from "../../src/contract/administration/api-key.ts";
import type { AuditEntry } from "../../src/contract/administration/audit.ts";
import type { Workspace } from "../../src/contract/administration/organization.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { type RunOptions, runCli } from "./run-cli.ts";

/** The server that `pierhead admin` manages as its operator, with simulated replicas. */
let server: TestServer;
before(async () => {
  server = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
});
after(() => server[Symbol.asyncDispose]());

const cli = (argv: string[], options: RunOptions = {}) => runCli([...argv, "--data-dir", server.dataDir], options);
const done = async (argv: string[], options: RunOptions = {}) => {
  const ran = await cli(argv, options);
  assert.equal(ran.code, 0, `${argv.join(" ")}: ${ran.stderr}`);
  return ran;
};
const json = async <T>(argv: string[], options: RunOptions = {}) =>
  JSON.parse((await done([...argv, "--json"], options)).stdout) as T;
const as = (key: string): RunOptions => ({ env: { PIERHEAD_API_KEY: key, PIERHEAD_URL: server.url } });
const withKey = (argv: string[], key: string) => runCli(argv, as(key));

test("creates, finds, renames, disables and deletes a workspace", async () => {
  const made = await json<Workspace>(["admin", "workspaces", "create", "search"]);
  assert.match(
    (await done(["admin", "workspaces", "list"])).stdout,
    /^NAME .*\n(.*\n)*search +[0-9a-f-]{36} +default +on/,
  );
  await done(["admin", "workspaces", "update", made.id.slice(0, 8), "--name", "search team"]);
  await done(["admin", "workspaces", "update", "search team", "--deployments", "off"]);
  const key = (await done(["admin", "keys", "create", "ci", "--for", "search team"])).stdout.trim();
  const off = await withKey(["list"], key);
  assert.deepEqual([off.code, /not enabled/.test(off.stderr)], [4, true]);
  await done(["admin", "workspaces", "update", "search team", "--deployments", "on"]);
  assert.equal((await withKey(["list"], key)).code, 0);
  const unasked = await cli(["admin", "workspaces", "delete", "search team"]);
  assert.deepEqual([unasked.code, /--yes/.test(unasked.stderr)], [2, true]);
  await done(["admin", "workspaces", "delete", "search team", "--yes"]);
  const gone = await cli(["admin", "workspaces", "delete", "search team", "--yes"]);
  assert.deepEqual([gone.code, /There is no workspace "search team"/.test(gone.stderr)], [1, true]);
  assert.match(
    (await cli(["admin", "workspaces", "update", "defualt", "--name", "x"])).stderr,
    /Did you mean default\?/,
  );
});

test("prints only the new key to stdout, finds it by prefix, and revokes it", async () => {
  const made = await done(["admin", "keys", "create", "robot", "--role", "reader", "--expires", "90d"]);
  assert.match(made.stdout, /^ph_[0-9a-f]{12}_[\w-]{43}\n$/);
  assert.match(made.stderr, /shown only once/);
  assert.doesNotMatch(made.stderr, /ph_/);
  const key = made.stdout.trim();
  assert.equal((await withKey(["list"], key)).code, 0);
  const { keys } = await json<{ keys: ApiKey[] }>(["admin", "keys", "list"]);
  const robot = keys.find(({ name }) => name === "robot") as ApiKey;
  assert.equal(robot.scope, "workspace");
  assert.ok(Math.abs(Date.parse(robot.expires_at ?? "") - Date.now() - 90 * 86_400_000) < 60_000);
  assert.match((await done(["admin", "keys", "list"])).stdout, /robot +ph_\w+ +reader +workspace default +active/);
  await done(["admin", "keys", "revoke", robot.prefix, "--yes"]);
  assert.equal((await withKey(["list"], key)).code, 4);
  assert.doesNotMatch((await done(["admin", "keys", "list"])).stdout, /robot/);
  assert.match((await done(["admin", "keys", "list", "--all"])).stdout, /robot .* revoked/);
});

test("lets an organization key administer the organization and keeps the last operator key", async () => {
  const argv = ["admin", "keys", "create", "platform", "--role", "admin", "--scope", "organization"];
  const platform = (await json<CreatedApiKey>(argv)).key;
  assert.equal((await withKey(["admin", "workspaces", "create", "made-by-platform"], platform)).code, 0);
  const refused = await withKey(["admin", "organizations", "create", "x"], platform);
  assert.deepEqual([refused.code, /admin key of the installation/.test(refused.stderr)], [4, true]);
  const deployer = (await done(["admin", "keys", "create", "someone"])).stdout.trim();
  assert.equal((await withKey(["admin", "keys", "list"], deployer)).code, 4);
  const last = await cli(["admin", "keys", "revoke", "admin", "--yes"]);
  assert.deepEqual([last.code, /last key that administers the installation/.test(last.stderr)], [1, true]);
});

test("lets an operator create and delete an organization with a workspace and a key", async () => {
  await done(["admin", "organizations", "create", "Acme", "--plan", "cloud"]);
  await done(["admin", "workspaces", "create", "first", "--organization", "Acme"]);
  const key = (await done(["admin", "keys", "create", "acme", "--role", "admin", "--for", "first"])).stdout.trim();
  assert.match((await withKey(["admin", "workspaces", "list"], key)).stdout, /first/);
  assert.doesNotMatch((await withKey(["admin", "workspaces", "list"], key)).stdout, /default/);
  await done(["admin", "organizations", "update", "Acme", "--plan", "self_hosted_enterprise"]);
  assert.match((await done(["admin", "organizations", "list"])).stdout, /Acme .*self_hosted_enterprise/);
  assert.equal((await cli(["admin", "organizations", "delete", "Acme", "--yes"])).code, 1);
  await done(["admin", "workspaces", "delete", "first", "--yes"]);
  await done(["admin", "organizations", "delete", "Acme", "--yes"]);
});

test("adds, lists, changes and removes members", async () => {
  await done(["admin", "members", "add", "Ada@example.org", "--role", "deployer", "--name", "Ada"]);
  await done(["admin", "members", "add", "grace@example.org", "--organization", "default"]);
  const shown = (await done(["admin", "members", "list"])).stdout;
  assert.match(shown, /ada@example.org +Ada +deployer +default/);
  assert.match(shown, /grace@example.org +- +reader +all workspaces/);
  await done(["admin", "members", "update", "ada@example.org", "--role", "admin"]);
  await done(["admin", "members", "remove", "grace@example.org", "--yes"]);
  const left = (await done(["admin", "members", "list"])).stdout;
  assert.match(left, /ada@example.org +Ada +admin/);
  assert.doesNotMatch(left, /grace/);
  assert.equal((await cli(["admin", "members", "update", "ada@example.org"])).code, 2);
});

test("tags deployments by name and finds them by tag", async () => {
  await done(["deploy", "node-server", "--name", "one"]);
  await done(["deploy", "node-server", "--name", "two"]);
  await done(["admin", "tags", "add", "team", "search"]);
  await done(["admin", "tags", "add", "team", "search", "billing", "--description", "Whose it is"]);
  assert.match((await done(["admin", "tags", "list"])).stdout, /team +[0-9a-f]{8} +billing, search +Whose it is/);
  await done(["admin", "tags", "set", "one", "team=search"]);
  assert.match((await done(["admin", "tags", "show", "one"])).stdout, /team +search/);
  const found = (await done(["list", "--tag", "team=search"])).stdout;
  assert.deepEqual([/^one /m.test(found), /^two /m.test(found)], [true, false]);
  const typo = await cli(["list", "--tag", "team=serch"]);
  assert.deepEqual([typo.code, /Did you mean search\?/.test(typo.stderr)], [1, true]);
  assert.equal((await cli(["admin", "tags", "set", "one", "search"])).code, 2);
  await done(["admin", "tags", "delete", "team", "search", "--yes"]);
  assert.equal((await done(["admin", "tags", "show", "one"])).stdout, "");
});

test("shows a quota with its usage, rejects a deployment above it, and removes it", async () => {
  await done(["deploy", "node-server", "--name", "counted"]);
  const { used } = (await json<{ deployments: { used: number } }>(["admin", "quotas", "show"])).deployments;
  await done(["admin", "quotas", "set", "default", "--deployments", String(used), "--build-minutes", "0"]);
  assert.match((await done(["admin", "quotas", "show"])).stdout, new RegExp(`deployments +${used} +${used}\n`));
  const refused = await cli(["deploy", "node-server", "--name", "surplus"]);
  assert.deepEqual([refused.code, /quota 'deployments' of this workspace is/.test(refused.stderr)], [1, true]);
  await done(["admin", "quotas", "set", "--deployments", "none"]);

  const nothingToBuild = await cli(["deploy", "node-server", "--name", "prepared"]);
  assert.equal(nothingToBuild.code, 0, "an existing artifact costs no build minutes");
  await using repository = await createAgentRepository(nodeAgent("one"));
  const deploy = ["deploy", repository.url, "--name", "unbuilt", "--config", "pierhead.json"];
  const failed = await cli(deploy);
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /ended in BUILD_FAILED/);
  assert.match(failed.stderr, /quota 'build_minutes' of this workspace is 0 a month/);
  await done(["admin", "quotas", "set", "--build-minutes", "none"]);
  await done(deploy);
  const { build_minutes } = await json<{ build_minutes: { limit: null; used: number } }>(["admin", "quotas", "show"]);
  assert.deepEqual([build_minutes.limit, build_minutes.used > 0], [null, true], "the build was counted");
});

test("lists actors and previous values in the audit log", async () => {
  await done(["deploy", "node-server", "--name", "watched"]);
  await done(["env", "set", "watched", "TOKEN"], { stdin: "hunter2\n" });
  const { entries } = await json<{ entries: AuditEntry[] }>(["admin", "audit", "--deployment", "watched"]);
  assert.deepEqual(
    entries.map(({ action }) => action),
    ["deployment.variables", "deployment.create"],
  );
  const { stdout } = await done(["admin", "audit", "--deployment", "watched"]);
  assert.match(stdout, /admin +deployment\.variables +watched +secrets \+TOKEN/);
  assert.doesNotMatch(stdout + JSON.stringify(entries), /hunter2/);
  const short = await done(["admin", "audit", "-n", "1"]);
  assert.match(short.stderr, /More entries exist\. Show them: --lines 10/);
  assert.equal((await done(["admin", "audit", "--since", "2h", "--until", "1h"])).stdout, "");
});
