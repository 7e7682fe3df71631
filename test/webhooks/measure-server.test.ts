import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { readSubjectFacts } from "../../src/store/alerts/subject-facts.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { ServerMeasurements } from "../../src/webhooks/measure-server.ts";
import { makeDeployment, makeWorld } from "../store/fixtures.ts";
import { eachDatabase } from "../support/database.ts";
import { startTlsDoor } from "../support/tls-proxy.ts";

eachDatabase(
  "reads the certificates of addresses that users gave their agents, unless they are private ones",
  async (db) => {
    await using door = await startTlsDoor("http://127.0.0.1:1");
    const world = await makeWorld(db);
    const { id } = await makeDeployment(db, world);
    await db.query(sql`
    update deployments set source_config = source_config || ${JSON.stringify({ custom_url: `${door.url}/agent` })}::jsonb where id = ${id}`);
    const { signal } = new AbortController();
    const certificatesOf = async (allowPrivateNetwork: boolean) => {
      const server = {
        id: String(allowPrivateNetwork),
        name: "a",
        dataDir: tmpdir(),
        addresses: [],
        allowPrivateNetwork,
      };
      const measurements = new ServerMeasurements(
        { db, logger: createLogger("silent"), server },
        { firstCertificatesMs: 0 },
      );
      await measurements.measure(signal);
      await measurements.settled();
      await measurements.record();
      const { servers } = await readSubjectFacts(db, 7);
      return servers
        .find((one) => one.server === server.id)
        ?.certificates.map(({ host, tenant_id }) => [host, tenant_id]);
    };
    assert.deepEqual(await certificatesOf(false), []);
    assert.deepEqual(await certificatesOf(true), [["127.0.0.1", world.tenantId]]);
  },
);
