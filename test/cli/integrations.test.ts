import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import type { GitSettings } from "../../src/contract/integrations/git-settings.ts";
import type { AgentProjectList, Integration, NewIntegration } from "../../src/contract/integrations/integration.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { runCli } from "./run-cli.ts";

let server: TestServer;
before(async () => {
  server = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
});
after(() => server[Symbol.asyncDispose]());

const cli = (argv: string[], more: Parameters<typeof runCli>[1] = {}) =>
  runCli([...argv, "--data-dir", server.dataDir], more);
const json = async <T>(argv: string[], more: Parameters<typeof runCli>[1] = {}) => {
  const ran = await cli([...argv, "--json"], more);
  assert.equal(ran.code, 0, `${argv.join(" ")}: ${ran.stderr}`);
  return JSON.parse(ran.stdout) as T;
};

test("stores a credential from stdin, never lists it, replaces the webhook secret, and deletes it", async () => {
  const create = ["integrations", "create", "https://gitlab.example.org/acme", "--host", "gitlab", "--name", "ours"];
  assert.equal((await cli(create)).code, 2, "no credential was given");
  const made = await json<NewIntegration>([...create, "--token-stdin"], { stdin: "glpat-canary\n" });
  assert.match(made.webhook_secret, /^whsec_/);
  const listed = await cli(["integrations", "list"]);
  assert.match(listed.stdout, /gitlab +ours +https:\/\/gitlab\.example\.org\/acme +token/);
  assert.ok(!listed.stdout.includes("canary"));
  const verbose = await cli([...create.slice(0, -1), "other", "--token-stdin", "--verbose"], {
    stdin: "glpat-canary\n",
  });
  assert.ok(!verbose.stderr.includes("canary"), "--verbose does not show the credential");
  const secret = await json<{ webhook_secret: string }>(["integrations", "secret", "ours"]);
  assert.notEqual(secret.webhook_secret, made.webhook_secret);
  const own = "whsec_made-by-the-host";
  const given = await json<{ webhook_secret: string }>(["integrations", "secret", "ours", "--stdin"], { stdin: own });
  assert.equal(given.webhook_secret, own);
  await json(["integrations", "delete", "ours", "--yes"]);
  const { integrations } = await json<{ integrations: Integration[] }>(["integrations", "list"]);
  assert.deepEqual(
    integrations.map(({ name }) => name),
    ["other"],
  );
});

test("reads an SSH key from files", async () => {
  const key = path.join(server.dataDir, "key");
  const hosts = path.join(server.dataDir, "hosts");
  await writeFile(key, "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n");
  await writeFile(hosts, "git.example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE\n");
  const made = await json<Integration>([
    ...["integrations", "create", "ssh://git.example.org/acme", "--ssh-key", key, "--known-hosts", hosts],
  ]);
  assert.deepEqual([made.has_ssh_key, made.has_token, made.host], [true, false, "git"]);
  assert.match((await cli(["integrations", "install"])).stderr, /no GitHub App.*integrations app create/);
});

test("gives an operator a link that creates the GitHub App", async () => {
  const link = await json<{ create_url: string }>(["integrations", "app", "create", "--organization", "acme"]);
  assert.ok(link.create_url.startsWith(`${server.url}/v2/auth/github-app?state=`));
  const page = await (await fetch(link.create_url)).text();
  assert.match(page, /action="https:\/\/github\.com\/organizations\/acme\/settings\/apps\/new\?state/);
  assert.match((await cli(["integrations", "app", "create", "--github-url", "what"])).stderr, /github_url/);
  assert.match((await cli(["integrations", "app", "show"])).stderr, /no GitHub App/);
  assert.match((await cli(["integrations", "app", "delete", "--yes"])).stderr, /no GitHub App/);
});

test("lists the agent projects of a repository and changes how a deployment handles pushes", async () => {
  await using repository = await createAgentRepository();
  const found = await json<AgentProjectList>(["integrations", "projects", repository.url, "--ref", "main"]);
  assert.deepEqual(
    found.projects.map(({ config_path }) => config_path),
    ["pierhead.json"],
  );
  await server.client.createDeployment({
    body: {
      ...{ name: "pushed", source: "github" },
      source_config: { repo_url: repository.url, build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  const settings = await json<GitSettings>([
    ...["pushes", "pushed", "--build", "on", "--include", "agents/**, *.json", "--exclude", "*.md"],
  ]);
  assert.deepEqual([settings.include_paths, settings.exclude_paths], [["agents/**", "*.json"], ["*.md"]]);
  const shown = await cli(["pushes", "pushed"]);
  assert.match(shown.stdout, /Builds pushes +yes/);
  assert.match(shown.stdout, /Included files +agents\/\*\*, \*\.json/);
  assert.match((await cli(["pushes", "pushed", "--previews", "on"])).stderr, /GitHub App/);
  assert.deepEqual((await json<GitSettings>(["pushes", "pushed", "--include", "all"])).include_paths, null);
});
