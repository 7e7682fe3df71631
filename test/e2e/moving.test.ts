import assert from "node:assert/strict";
import { test } from "node:test";
import pg from "pg";
import { createDirectory } from "../cli/run-cli.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { commandsOf, runCommand } from "../support/guide.ts";
import { postgresSkipped } from "../support/postgres-server.ts";
import { startRegion } from "../support/region.ts";
import type { TestServer } from "../support/server.ts";

async function variablesOf({ client }: TestServer): Promise<Record<string, string>> {
  const [deployment] = (await client.listDeployments({ name: "support" })).resources;
  return (await fetch(`${deployment?.url}/env`)).json() as Promise<Record<string, string>>;
}

/** Runs a statement in the database that the agent of a region has. */
async function inDatabase(server: TestServer, statement: string): Promise<{ id: number }[]> {
  const client = new pg.Client({ connectionString: (await variablesOf(server))["DATABASE_URI"] as string });
  await client.connect();
  try {
    return (await client.query(statement)).rows;
  } finally {
    await client.end();
  }
}

test("the commands of the guide move a deployment with its variables and its database", async (context) => {
  await using us = await startRegion();
  await using eu = await startRegion();
  if (us === undefined || eu === undefined) return context.skip(postgresSkipped);
  await using repository = await createAgentRepository(nodeAgent("one"));
  await using at = await createDirectory({
    ...{ "us.key": us.server.apiKey, "eu.key": eu.server.apiKey },
    "before.yaml": [
      ...["deployments:", "  support:", "    source: github", `    repo_url: ${repository.url}`, "    ref: main"],
      ...[
        "    config_path: pierhead.json",
        "    variables: { LOG_LEVEL: debug }",
        "    secrets: { TOKEN: SUPPORT_TOKEN }",
      ],
    ].join("\n"),
  });
  const env = { PIERHEAD_CONFIG_DIR: at.directory, SUPPORT_TOKEN: "hunter2", TOKEN: "hunter2", LOG_LEVEL: "debug" };
  const run = async (command: string) => {
    const from = command.includes("--context us") ? us : eu;
    const PIERHEAD_AGENT_POSTGRES_URL = from.postgres.url;
    const PATH = process.env["PATH"];
    const ran = await runCommand(command, { cwd: at.directory, env: { ...env, PATH, PIERHEAD_AGENT_POSTGRES_URL } });
    assert.equal(ran.code, 0, `${command}\n${ran.stdout}${ran.stderr}`);
    return ran;
  };
  await run(`pierhead login ${us.server.url} --name us --key < us.key`);
  await run(`pierhead login ${eu.server.url} --name eu --key < eu.key`);
  await run("pierhead apply --file before.yaml --context us");
  await inDatabase(us.server, "create table threads (id int)");
  await inDatabase(us.server, "insert into threads values (1), (2)");

  const commands = await commandsOf("docs/guides/moving.md");
  assert.ok(commands.length >= 8);
  for (const command of commands.slice(0, -1)) await run(command);
  assert.deepEqual(await inDatabase(eu.server, "select id from threads order by id"), [{ id: 1 }, { id: 2 }]);
  assert.partialDeepStrictEqual(await variablesOf(eu.server), { LOG_LEVEL: "debug", TOKEN: "hunter2" });
  assert.deepEqual(await inDatabase(us.server, "select count(*)::int as id from threads"), [{ id: 2 }], "still there");

  const last = commands.at(-1) as string;
  assert.match(last, /^pierhead delete support .*--context us$/);
  await run(last);
  assert.deepEqual((await us.server.client.listDeployments({})).resources, []);
  assert.deepEqual(await inDatabase(eu.server, "select id from threads order by id"), [{ id: 1 }, { id: 2 }]);
});
