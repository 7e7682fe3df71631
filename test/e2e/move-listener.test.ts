import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import pg from "pg";
import { databaseNameOf } from "../../src/provision/database-server.ts";
import { createDirectory, runCli } from "../cli/run-cli.ts";
import { startListenerProgram } from "../server/listener-program.ts";
import { freePort } from "../support/free-port.ts";
import { findBinaries, postgresSkipped, startPostgresServer } from "../support/postgres-server.ts";
import { startTestServer } from "../support/server.ts";

const run = promisify(execFile);

test("moves an image to a listener of the same control plane, with another name and the same data", async (context) => {
  const port = await freePort();
  const postgres = await startPostgresServer({ port });
  if (postgres === undefined) return context.skip(postgresSkipped);
  await using _ = { [Symbol.asyncDispose]: () => postgres.stop() };
  await using at = await createDirectory();
  await using pierhead = await startTestServer({
    PIERHEAD_COMPUTE: "simulated",
    ...{ PIERHEAD_AGENT_POSTGRES_URL: postgres.url, PIERHEAD_AGENT_POSTGRES_ADDRESS: `127.0.0.1:${port}` },
  });
  const { client } = pierhead;
  const body = { compute_type: "k8s", compute_id: "eu-1", compute_config: {}, labels: { region: "eu" } } as const;
  const { listener_key: key, id: listenerId } = await client.createListener({ body });
  await using files = await createDirectory({ key });
  const listener = await startListenerProgram({
    ...{ PIERHEAD_URL: pierhead.url, PIERHEAD_LISTENER_KEY_FILE: path.join(files.directory, "key") },
    ...{ PIERHEAD_COMPUTE: "simulated", PIERHEAD_DATA_DIR: at.directory },
  });
  await using __ = { [Symbol.asyncDispose]: () => listener.stop() };
  const made = await client.createDeployment({
    body: {
      ...{ name: "support", source: "external_docker", secrets: [{ name: "TOKEN", value: "hunter2" }] },
      source_config: { resource_spec: { cpu: 2, max_scale: 3 } },
      source_revision_config: { image_uri: "registry.example.com/support:1" },
    },
  });
  await client.waitForRevision({ deployment_id: made.id, revision_id: made.latest_revision_id as string });
  const inDatabase = async (id: string, text: string) => {
    const url = new URL(postgres.url);
    url.pathname = databaseNameOf(id);
    const connection = new pg.Client({ connectionString: url.href });
    await connection.connect();
    return (await connection.query(text).finally(() => connection.end())).rows;
  };
  await inDatabase(made.id, "create table notes as select generate_series(1, 1000) as id");

  const env = {
    ...{ PATH: process.env["PATH"], PIERHEAD_URL: pierhead.url, PIERHEAD_API_KEY: pierhead.apiKey },
    PIERHEAD_AGENT_POSTGRES_URL: postgres.url,
  };
  const move = ["move", "support", "--to-where", "region=eu", "--to-namespace", "agents", "--yes", "--json"];
  const moved = await runCli(move, { env });
  assert.equal(moved.code, 0, moved.stderr);
  const { outcome, to, tables } = JSON.parse(moved.stdout);
  assert.deepEqual([outcome, to.name], ["moved", "support-2"]);
  assert.deepEqual(tables, [{ name: "public.notes", rows: 1000 }]);
  const target = await client.getDeployment({ deployment_id: to.deployment_id });
  assert.equal(target.source_config.listener_id, listenerId);
  assert.equal(target.source_config.listener_config?.k8s_namespace, "agents");
  const { desired } = await client.debugDeployment({ deployment_id: target.id });
  assert.deepEqual(desired["resource_spec"], { cpu: 2, max_scale: 3 }, "defaults are not copied");
  assert.equal(target.secrets.find(({ name }) => name === "TOKEN")?.value, "hunter2");
  assert.deepEqual(await inDatabase(target.id, "select count(*)::int as count from notes"), [{ count: 1000 }]);

  const finished = await runCli(["move", "support", "--finish", "--yes", "--json"], { env });
  assert.equal(finished.code, 0, finished.stderr);
  assert.deepEqual(
    (await client.listDeployments({})).resources.map(({ name }) => name),
    ["support-2"],
  );
});

/** Plays kubectl for two clusters: a context names a PostgreSQL of this machine, in which the programs run. */
const kubectl = `#!/bin/sh
. "$CLUSTERS/$2"
case " $* " in
  *" get "*) echo '{"items": [{"metadata": {"name": "support-postgres-0", "namespace": "agents"}}]}' ;;
  *" exec "*)
    while [ "$1" != -- ]; do shift; done
    shift
    exec "$@" ;;
esac
`;

test("copies a database between clusters with kubectl, or prints the commands", async (context) => {
  const [old, next] = [await startPostgresServer(), await startPostgresServer()];
  if (old === undefined || next === undefined) return context.skip(postgresSkipped);
  await using _ = {
    async [Symbol.asyncDispose]() {
      await Promise.all([old.stop(), next.stop()]);
    },
  };
  await using at = await createDirectory({ kubectl });
  await chmod(path.join(at.directory, "kubectl"), 0o755);
  const agentUrl = ({ url }: { url: string }) => url.replace("postgres@", "agent@").replace(/postgres$/, "agent");
  const ask = async (connectionString: string, ...statements: string[]) => {
    const connection = new pg.Client({ connectionString });
    await connection.connect();
    try {
      let rows: unknown[] = [];
      for (const statement of statements) rows = (await connection.query(statement)).rows;
      return rows;
    } finally {
      await connection.end();
    }
  };
  for (const [name, server] of Object.entries({ old, next })) {
    await ask(server.url, "create role agent superuser login", "create database agent owner agent");
    await writeFile(
      path.join(at.directory, name),
      [
        ...[
          "export POSTGRES_USER=agent POSTGRES_DB=agent",
          `export PGHOST='${decodeURIComponent(new URL(server.url).host)}'`,
        ],
        "",
      ].join("\n"),
    );
  }
  await ask(agentUrl(old), "create table notes as select generate_series(1, 1000) as id");

  await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "none" });
  const { client } = pierhead;
  const listeners: { id: string; stop(): Promise<void> }[] = [];
  await using __ = {
    async [Symbol.asyncDispose]() {
      await Promise.all(listeners.map((one) => one.stop()));
    },
  };
  for (const name of ["us-1", "eu-1"]) {
    const body = { compute_type: "k8s", compute_id: name, compute_config: {} } as const;
    const { listener_key: key, id } = await client.createListener({ body });
    await writeFile(path.join(at.directory, `${name}.key`), key);
    const program = await startListenerProgram({
      ...{ PIERHEAD_URL: pierhead.url, PIERHEAD_LISTENER_KEY_FILE: path.join(at.directory, `${name}.key`) },
      ...{ PIERHEAD_COMPUTE: "simulated", PIERHEAD_DATA_DIR: path.join(at.directory, `${name}-data`) },
    });
    listeners.push({ id, stop: () => program.stop() });
  }
  const made = await client.createDeployment({
    body: {
      ...{ name: "support", source: "external_docker" },
      source_config: { listener_id: String(listeners[0]?.id), listener_config: { k8s_namespace: "agents" } },
      source_revision_config: { image_uri: "registry.example.com/support:1" },
    },
  });
  await client.waitForRevision({ deployment_id: made.id, revision_id: made.latest_revision_id as string });

  const env = {
    ...{ PIERHEAD_URL: pierhead.url, PIERHEAD_API_KEY: pierhead.apiKey, CLUSTERS: at.directory },
    PATH: [at.directory, findBinaries(), process.env["PATH"]].join(path.delimiter),
  };
  const move = ["move", "support", "--to-listener", "eu-1", "--to-namespace", "agents", "--yes"];
  const printed = await runCli(move, { env });
  assert.equal(printed.code, 8, printed.stderr);
  assert.match(printed.stdout, /^kubectl --context OLD_CONTEXT -n agents exec support-postgres-0 /);
  assert.match(printed.stdout, /kubectl --context NEW_CONTEXT -n agents exec support-2-postgres-0 -i/);
  assert.match(printed.stderr, /--continue/);
  const early = await runCli(["move", "support", "--finish", "--yes"], { env });
  assert.equal(early.code, 1, "nothing was copied");
  assert.match(early.stderr, /--continue --finish/);
  const inCluster = (commands: string) =>
    run("sh", ["-ec", commands.replaceAll("OLD_CONTEXT", "old").replaceAll("NEW_CONTEXT", "next")], {
      ...{ env, cwd: at.directory },
    });
  await inCluster(printed.stdout);
  assert.deepEqual(await ask(agentUrl(next), "select count(*)::int as count from notes"), [{ count: 1000 }]);
  await assert.rejects(ask(agentUrl(old), "insert into notes values (0)"), /read-only/);
  const byHand = await runCli(["move", "support", "--back", "--yes"], { env });
  assert.equal(byHand.code, 0, byHand.stderr);
  assert.doesNotMatch(byHand.stderr, /support takes writes\./);
  await inCluster(byHand.stderr.slice(byHand.stderr.indexOf("kubectl --context OLD_CONTEXT")));
  await ask(agentUrl(old), "insert into notes values (0)", "delete from notes where id = 0");

  const moved = await runCli([...move, "--from-kubectl", "old", "--to-kubectl", "next", "--json"], { env });
  assert.equal(moved.code, 0, moved.stderr);
  assert.deepEqual(JSON.parse(moved.stdout).tables, [{ name: "public.notes", rows: 1000 }]);
  assert.deepEqual(await ask(agentUrl(next), "select count(*)::int as count from notes"), [{ count: 1000 }]);
  await assert.rejects(ask(agentUrl(old), "insert into notes values (0)"), /read-only/);

  const own = await client.createDeployment({
    body: {
      ...{ name: "own", source: "external_docker", secrets: [{ name: "POSTGRES_URI_CUSTOM", value: agentUrl(old) }] },
      source_config: { listener_id: String(listeners[0]?.id), listener_config: { k8s_namespace: "agents" } },
      source_revision_config: { image_uri: "registry.example.com/support:1" },
    },
  });
  await client.waitForRevision({ deployment_id: own.id, revision_id: own.latest_revision_id as string });
  const planned = await runCli(["move", "own", "--to-listener", "eu-1", "--dry-run"], { env });
  assert.match(planned.stdout, /Both use the PostgreSQL of POSTGRES_URI_CUSTOM/, planned.stderr);

  const back = await runCli(["move", "support", "--from-kubectl", "old", "--back", "--yes"], { env });
  assert.equal(back.code, 0, back.stderr);
  await ask(agentUrl(old), "insert into notes values (0)");
});
