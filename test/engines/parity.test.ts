import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startPostgresServer } from "../support/postgres-server.ts";
import { runChecks } from "./parity.ts";
import { startReplica } from "./replicas.ts";

const server = await startPostgresServer();
after(() => server?.stop());

test("the PostgreSQL engine passes every check that the file engine passes", async () => {
  const replicas = [
    await startReplica("file"),
    await startReplica("postgres", { connectionString: server?.url ?? "" }),
  ];
  after(() => {
    for (const replica of replicas) replica.process.kill("SIGKILL");
  });
  const [file, postgres] = await Promise.all(replicas.map(runChecks));
  const failed = (results = file) => (results ?? []).filter(({ failure }) => failure !== undefined);
  assert.ok((file?.length ?? 0) >= 50, `${file?.length} checks`);
  console.log(`${file?.length} checks: ${failed(file).length} fail on files, ${failed(postgres).length} on PostgreSQL`);
  assert.deepEqual(failed(postgres), []);
  for (const replica of replicas) replica.process.kill("SIGTERM");
  assert.equal(await replicas[1]?.ended, 0);
});
