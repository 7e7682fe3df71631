import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { runCli } from "../cli/run-cli.ts";
import { eventually } from "../support/eventually.ts";
import { postgresSkipped } from "../support/postgres-server.ts";
import type { Region } from "../support/region.ts";
import { find, type MoveWorld, read, startMoveWorld, write } from "./move-world.ts";

let world: MoveWorld | undefined;
before(async () => {
  world = await startMoveWorld();
});
after(() => world?.[Symbol.asyncDispose]());

test("moves to another control plane: notes written before are read after, refused ones are not lost silently", async (context) => {
  if (world === undefined) return context.skip(postgresSkipped);
  const { us, eu, succeed, deploy } = world;
  const old = await deploy(us, "support");
  const accepted: number[] = [];
  let refused = 0;
  let isWriting = true;
  const writing = (async () => {
    for (let id = 1; isWriting; id += 1) {
      if ((await write(old.url, id)) === 200) accepted.push(id);
      else refused += 1;
    }
  })();
  const planned = await succeed("move", "support", "--to-context", "eu", "--dry-run", "--json");
  assert.equal(JSON.parse(planned.stdout).outcome, "planned");
  assert.match(planned.stdout, /the values of TOKEN/);
  assert.equal(await find(eu, "support"), undefined);

  const moved = JSON.parse((await succeed("move", "support", "--to-context", "eu", "--yes", "--json")).stdout);
  isWriting = false;
  await writing;
  const target = await find(eu, "support");
  assert.equal(moved.to.url, target?.url);
  assert.ok(accepted.length > 0 && refused > 0, `${accepted.length} accepted, ${refused} refused`);
  const kept = await read(moved.to.url);
  const unanswered = kept.filter((id) => !accepted.includes(id));
  assert.deepEqual(kept, [...accepted, ...unanswered]);
  assert.ok(unanswered.length <= 1, "only the session that the move ended can have written without an answer");
  assert.deepEqual(moved.tables, [{ name: "public.notes", rows: kept.length }]);
  assert.deepEqual(await read(old.url), kept, "the old one still reads");
  assert.equal(await write(old.url, -1), 500);
  assert.equal(await write(moved.to.url, 0), 200);
  const variables = (await (await fetch(`${moved.to.url}/env`)).json()) as Record<string, string>;
  assert.equal(variables["TOKEN"], "hunter2");
  const { repo_branch, build_on_push } = target?.source_config ?? {};
  assert.deepEqual({ repo_branch, build_on_push }, { repo_branch: "main", build_on_push: true });

  const again = await succeed("move", "support", "--to-context", "eu", "--yes");
  assert.match(again.stderr, /pierhead move support --context us --to-context eu --finish/);
  assert.ok((await read(moved.to.url)).includes(0), "a second call does not copy over new notes");

  await succeed("move", "support", "--to-context", "eu", "--finish", "--yes");
  assert.equal(await find(us, "support"), undefined);
  assert.deepEqual(await read(moved.to.url), [0, ...kept]);
  const late = await succeed("move", "support", "--to-context", "eu", "--finish", "--yes");
  assert.match(late.stderr, /already deleted/);
});

test("takes a move back: the old one takes writes again, and the new one is gone", async (context) => {
  if (world === undefined) return context.skip(postgresSkipped);
  const { us, eu, succeed, deploy } = world;
  const old = await deploy(us, "returning");
  assert.equal(await write(old.url, 1), 200);
  await succeed("move", "returning", "--to-context", "eu", "--as", "there", "--yes");
  assert.equal(await write(old.url, 2), 500);
  await succeed("move", "returning", "--to-context", "eu", "--as", "there", "--back", "--yes");
  await eventually(
    () => write(old.url, 3),
    (status) => status === 200,
  );
  assert.deepEqual(await read(old.url), [1, 3]);
  assert.equal(await find(eu, "there"), undefined);

  await succeed("move", "returning", "--to-context", "eu", "--yes");
  const { client } = eu.server;
  const ids = { deployment_id: (await find(eu, "returning"))?.id as string };
  await client.deleteDeployment(ids);
  await client.waitForDeletion(ids);
  const back = await succeed("move", "returning", "--to-context", "eu", "--back", "--yes");
  assert.match(back.stderr, /does not exist at the context eu/);
  await eventually(
    () => write(old.url, 4),
    (status) => status === 200,
  );
});

test("a target that fails on the copied data leaves the old one serving and writing, and the next call goes on", async (context) => {
  if (world === undefined) return context.skip(postgresSkipped);
  const { us, eu, env, runIn, succeed, deploy } = world;
  const groupIn = async ({ server }: Region, value: string) =>
    (await server.client.createVariableGroup({ body: { name: "region", variables: [{ name: "REGION", value }] } })).id;
  const old = await deploy(us, "fragile", [await groupIn(us, "us")]);
  assert.equal(await write(old.url, 1), 200);
  const lacking = await runIn("move", "fragile", "--to-context", "eu", "--yes");
  assert.equal(lacking.code, 1);
  assert.match(
    lacking.stderr,
    /lacks the variable group region[\s\S]*pierhead groups set region VARIABLE --context eu/,
  );

  await groupIn(eu, "broken");
  const failed = await runIn("move", "fragile", "--to-context", "eu", "--yes");
  assert.equal(failed.code, 1, failed.stderr);
  assert.match(failed.stderr, /DEPLOY_FAILED[\s\S]*pierhead why fragile --context eu/);
  assert.match(failed.stderr, /fragile takes writes again/);
  await eventually(
    () => write(old.url, 2),
    (status) => status === 200,
  );

  await runCli(["groups", "set", "region", "REGION", "--context", "eu"], { env, stdin: "eu" });
  await succeed("move", "fragile", "--to-context", "eu", "--yes");
  assert.deepEqual(await read((await find(eu, "fragile"))?.url ?? null), [1, 2]);
});

test("refuses what it cannot move, and says what to do", async (context) => {
  if (world === undefined) return context.skip(postgresSkipped);
  const { us, eu, env, runIn, deploy } = world;
  await deploy(us, "refused");
  await deploy(eu, "refused");
  const cases: [argv: string[], expected: RegExp][] = [
    [["refused"], /--to-context CONTEXT/],
    [["refused", "--to-context", "eu", "--yes"], /not the result of a move[\s\S]*--as NAME/],
    [["refused", "--to-listener", "nowhere", "--yes"], /There is no listener "nowhere"/],
    [["refused", "--to-context", "eu", "--as", "new", "--finish", "--yes"], /was not moved there/],
    [["refused", "--to-context", "eu", "--as", "new"], /--yes/],
  ];
  for (const [argv, expected] of cases) {
    const { code, stderr } = await runIn("move", ...argv);
    assert.notEqual(code, 0, argv.join(" "));
    assert.match(stderr, expected);
  }
  const { PIERHEAD_AGENT_POSTGRES_URL: _, ...without } = env;
  const argv = ["move", "refused", "--to-context", "eu", "--as", "new", "--yes", "--context", "us"];
  const unknown = await runCli(argv, { env: without });
  assert.match(unknown.stderr, /Set PIERHEAD_AGENT_POSTGRES_URL/);
  assert.equal(await find(eu, "new"), undefined, "nothing was created");
  const { PIERHEAD_TARGET_POSTGRES_URL: __, ...sameServer } = env;
  const elsewhere = await runCli(argv, { env: sameServer });
  assert.match(elsewhere.stderr, /Set PIERHEAD_TARGET_POSTGRES_URL/);
  assert.doesNotMatch(elsewhere.stderr, /^refused takes writes again/m, "it never refused them");
  const integration = ["--to-integration", "00000000-0000-4000-8000-000000000000"];
  const planned = await runIn("move", "refused", "--to-context", "eu", "--as", "other", "--dry-run", ...integration);
  assert.match(planned.stdout, /--to-integration 00000000-0000-4000-8000-000000000000 --as other --back/);
});
